"""`kraft server`: starts a node, and checks its settings."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kraft.cli.command import kraft
from kraft.cli.options import JSON, Fields, count_of, server_config_options
from kraft.cli.server_config import server_config
from kraft.config.quorum_config import check_quorum, is_sole_controller
from kraft.garbage import collections_off
from kraft.runtime.base import log_output
from kraft.runtime.base.log_file import part_levels

if TYPE_CHECKING:
    from kraft.runtime.any_node import AnyNode


@kraft.group("server")
def server() -> None:
    """Run a node: broker and controller in one process."""


@server.command("start")
@server_config_options
@click.option("--listen", metavar="HOST:PORT",
              help="Where clients connect; instead of the file's listeners [default: 127.0.0.1:9092].")
@click.option("--log-level", type=click.Choice(log_output.LEVELS), default="warning", show_default=True,
              help="Lowest level of the lines on standard error. A file for more is kraft.log.file.")
@click.option("--log-format", type=click.Choice(log_output.FORMATS), default="text", show_default=True)
@JSON
def start(file: Path | None, data: Path | None, assignments: tuple[str, ...], listen: str | None, log_level: str,
          log_format: str, as_json: bool) -> None:
    """Start a node and serve until SIGTERM or Ctrl-C.

    No configuration is needed: the first start creates the data directory and the cluster's id, later ones use them.
    One line on standard output reports that the node serves.
    """
    config = server_config(file, data, listen, assignments)
    log_output.set_up(log_level, log_format)
    # Imported only now: a wrong option is reported at once.
    with collections_off():
        from kraft.runtime.process import run_node, seconds_since_start

    def ready(node: "AnyNode") -> None:
        fields = ready_fields(node, seconds_since_start())
        click.echo(json.dumps(fields) if as_json else ready_text(fields))

    run_node(config, ready)


@server.command("check")
@server_config_options
@click.option("--strict", is_flag=True, help="Exit code 1 when a setting has no effect.")
@JSON
def check(file: Path | None, data: Path | None, assignments: tuple[str, ...], strict: bool, as_json: bool) -> None:
    """Check the settings of a node without starting it.

    Exit code 1 for invalid settings, which would also prevent a start. Settings without effect are listed with the
    reason: unknown keys, keys of earlier versions of Kafka, settings that do nothing here.
    """
    config = server_config(file, data, None, assignments)
    part_levels(config)
    if not is_sole_controller(config):
        check_quorum(config)
    warnings = config.warnings
    if as_json:
        click.echo(json.dumps({"node_id": config.node_id, "roles": list(config.roles), "warnings": warnings},
                              ensure_ascii=False))
    else:
        for text in warnings:
            click.echo(f"warning: {text}")
        click.echo(f"node {config.node_id}, {' and '.join(config.roles)}: "
                   f"{count_of(len(warnings), 'warning') if warnings else 'nothing to complain of'}")
    if warnings and strict:
        raise click.exceptions.Exit(1)


def ready_fields(node: "AnyNode", seconds: float) -> Fields:
    """Return the fields of the ready line."""
    # Imported here as above: a wrong option is reported at once.
    from kraft.runtime.net.access import access_sentences

    metrics = getattr(node, "metrics", None)
    return {
        "event": "ready", "node_id": node.config.node_id, "cluster_id": node.cluster_id,
        "listeners": {each.listener: _address(each.host, node.listeners[each.listener].port)
                      for each in node.config.listeners},
        "data": [str(path.absolute()) for path in node.config.log_dirs],
        "metrics": _address(metrics.host, metrics.port) if metrics else None,
        "metrics_scheme": metrics.scheme if metrics else None,
        "access": access_sentences(node.config, node.server),
        "start_seconds": round(seconds, 3),
    }


def ready_text(fields: Fields) -> str:
    listeners = ", ".join(f"{name}://{address}" for name, address in fields["listeners"].items())
    scheme = fields["metrics_scheme"]
    metrics = f", metrics on {scheme}://{fields['metrics']}/metrics" if fields["metrics"] else ""
    return (f"kraft node {fields['node_id']} ready in {fields['start_seconds']:.2f} s: {listeners}; "
            f"cluster {fields['cluster_id']}, data in {', '.join(fields['data'])}"
            f"{metrics}" + "".join(f"\nlistener {name}: {text}" for name, text in fields["access"].items()))


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
