"""`kraft security`: files that secure a cluster."""

import os
import re
from pathlib import Path
from typing import Final

import click

from kraft.cli.command import kraft
from kraft.cli.number_types import IntRange
from kraft.cli.options import JSON, OUTPUT_DIRECTORY, print_json
from kraft.config.errors import InvalidConfigError

HOST_DEFAULT: Final = "localhost"
LOOPBACK: Final = ("127.0.0.1", "::1")
FOR_OWNER: Final = 0o600
DIRECTORY_FOR_OWNER: Final = 0o700
PORTS: Final = (9092, 9093)
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


@kraft.group("security")
def security() -> None:
    """Files that secure a cluster."""


@security.command("init")
@click.argument("directory", type=OUTPUT_DIRECTORY)
@click.option("--host", "hosts", multiple=True, metavar="HOST", default=(HOST_DEFAULT,), show_default=True,
              help="Name or address of a node, as clients connect to it; once for each node.")
@click.option("--client", "clients", multiple=True, metavar="NAME", default=("admin",), show_default=True,
              help="User that gets a certificate; once for each.")
@click.option("--days", type=IntRange(1, 36_500), default=825, show_default=True,
              help="Validity of the certificates.")
@JSON
def init(directory: Path, hosts: tuple[str, ...], clients: tuple[str, ...], days: int, as_json: bool) -> None:
    """Create a certificate authority, certificates, and configurations that use them.

    DIRECTORY gets the authority's ca.pem and ca.key; NODE.pem and NODE.properties for each host; CLIENT.pem,
    CLIENT.properties (Java, and the kraft command) and CLIENT.librdkafka (librdkafka) for each client. Nodes and
    clients show certificates to each other. Nothing is overwritten. Keep ca.key away from the nodes.
    """
    from kraft.tls.authority import Authority

    for name in (*hosts, *clients):
        if not _NAME.fullmatch(name.replace(":", "")):
            raise InvalidConfigError(f"{name!r} is not a name of letters, digits, dots, dashes and underscores")
    made = {name: _file_name(name) for name in (*hosts, *clients)}
    if len({*made.values(), "ca"}) < len(hosts) + len(clients) + 1:
        raise InvalidConfigError("each host and each client needs a name of its own, and none is ca")
    directory.mkdir(mode=DIRECTORY_FOR_OWNER, parents=True, exist_ok=True)
    authority = Authority("kraft development CA", days)
    where = directory.absolute()
    files: dict[str, str] = {"ca.pem": authority.issued.certificate, "ca.key": authority.issued.key}
    for host in hosts:
        own = (host, *((*LOOPBACK, HOST_DEFAULT) if host == HOST_DEFAULT else ()))
        issued = authority.issue(host, tuple(dict.fromkeys(own)), days)
        files[f"{made[host]}.pem"] = issued.key + issued.certificate
        files[f"{made[host]}.properties"] = _node_properties(where, made[host], host)
    for client in clients:
        issued = authority.issue(client, (), days)
        files[f"{made[client]}.pem"] = issued.key + issued.certificate
        files[f"{made[client]}.properties"] = _client_properties(where, made[client], hosts)
        files[f"{made[client]}.librdkafka"] = _library_properties(where, made[client], hosts)
    _write(directory, files)
    if as_json:
        print_json([{"directory": str(where), "files": sorted(files)}])
        return
    click.echo(f"{where}: {', '.join(sorted(files))}")


def _file_name(name: str) -> str:
    return name.replace(":", "_")


def _write(directory: Path, files: dict[str, str]) -> None:
    """Write new files for their owner only. Nothing is written when one of them exists."""
    if existing := [name for name in files if (directory / name).exists()]:
        raise InvalidConfigError(f"{directory}: {', '.join(existing)} exists; nothing is overwritten")
    for name, text in files.items():
        descriptor = os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FOR_OWNER)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)


def _stores(where: Path, name: str) -> str:
    return (f"ssl.keystore.type=PEM\nssl.keystore.location={where}/{name}.pem\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={where}/ca.pem\n")


def _node_properties(where: Path, name: str, host: str) -> str:
    shown = f"[{host}]" if ":" in host else host
    clients, controllers = PORTS
    return (
        f"# TLS of the node {host}: clients and other nodes show certificates of the same authority.\n"
        f"listeners=SSL://{shown}:{clients},CONTROLLER://{shown}:{controllers}\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=SSL:SSL,CONTROLLER:SSL\n"
        f"{_stores(where, name)}"
        "ssl.client.auth=required\n"
        "# The common name of a certificate is the name of the user.\n"
        "ssl.principal.mapping.rules=RULE:^CN=([^,]+)(,.*)?$/$1/,DEFAULT\n")


def _client_properties(where: Path, name: str, hosts: tuple[str, ...]) -> str:
    return f"bootstrap.servers={_servers(hosts)}\nsecurity.protocol=SSL\n{_stores(where, name)}"


def _library_properties(where: Path, name: str, hosts: tuple[str, ...]) -> str:
    return (f"bootstrap.servers={_servers(hosts)}\nsecurity.protocol=ssl\nssl.ca.location={where}/ca.pem\n"
            f"ssl.certificate.location={where}/{name}.pem\nssl.key.location={where}/{name}.pem\n")


def _servers(hosts: tuple[str, ...]) -> str:
    return ",".join(f"{f'[{host}]' if ':' in host else host}:{PORTS[0]}" for host in hosts)
