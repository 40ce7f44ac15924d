"""`kraft certs`: certificates that nodes and clients use."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kraft.cli.client_config import read_client_config
from kraft.cli.command import kraft
from kraft.cli.options import JSON, Fields, print_json, print_table
from kraft.cli.server_config import server_config
from kraft.client.security import security_of
from kraft.config.errors import InvalidConfigError
from kraft.tls.checks import Report, check_tls
from kraft.tls.settings import TlsSettings

if TYPE_CHECKING:
    from kraft.config.node_config import NodeConfig
    from kraft.tls.certificates import CertificateFacts


@kraft.group("certs")
def certs() -> None:
    """Certificates that nodes and clients use."""


@certs.command("check")
@click.argument("files", type=click.Path(path_type=Path, exists=True, dir_okay=False), nargs=-1, required=True)
@JSON
def check(files: tuple[Path, ...], as_json: bool) -> None:
    """Check the certificates that configurations name: dates, names, chain and key.

    FILES are properties of nodes or of clients. Exit code 1 when a connection would fail. A certificate that expires
    within 30 days is reported.
    """
    rows: list[Fields] = []
    findings: list[Fields] = []
    now_s = time.time()
    for file in files:
        for name, settings, hosts in _settings_of(file):
            report = check_tls(settings, hosts, now_s)
            rows += _rows(f"{file}{name}", report)
            findings += [{"where": f"{file}{name}", "fault": each.is_fault, "text": each.text}
                         for each in report.findings]
    if as_json:
        print_json([*({"kind": "certificate", **row} for row in rows),
                    *({"kind": "finding", **each} for each in findings)])
    else:
        print_table(list(rows[0]) if rows else [], [tuple(row.values()) for row in rows])
        for each in findings:
            click.echo(f"{'fault' if each['fault'] else 'note'}: {each['where']}: {each['text']}")
    if any(each["fault"] for each in findings):
        raise click.exceptions.Exit(1)


def _settings_of(file: Path) -> list[tuple[str, TlsSettings, tuple[str, ...]]]:
    """Return the settings of TLS in a file: for each listener of a node, or of a client."""
    properties = read_client_config(file)
    if "security.protocol" not in properties:
        return _of_node(server_config(file, None, None, ()), file)
    found = security_of(properties)
    if not found.tls:
        raise InvalidConfigError(f"{file}: security.protocol={found.protocol} has no TLS")
    return [("", found.tls_settings, ())]


def _of_node(config: "NodeConfig", file: Path) -> list[tuple[str, TlsSettings, tuple[str, ...]]]:
    from kraft.runtime.net.tls_contexts import tls_settings

    found = [(f" {each.listener}", tls_settings(config, config.layers(), each.listener),
              tuple(filter(None, [config.advertised(each).host]))) for each in config.listeners
             if config.has_tls(each.listener)]
    if not found:
        raise InvalidConfigError(f"{file}: no listener has TLS")
    return found


def _rows(where: str, report: Report) -> list[Fields]:
    return [_row(where, use, each) for use, some in (("own", report.own), ("trusted", report.trusted))
            for each in some]


def _row(where: str, use: str, facts: "CertificateFacts") -> Fields:
    from kraft.tls.certificates import day_of

    return {"where": where, "use": use, "subject": facts.subject, "names": ", ".join(facts.names),
            "expires": day_of(facts.ends_s)}
