"""`kraft context`: clusters with names, so that commands need neither addresses nor files of credentials."""

import os
from pathlib import Path
from typing import Final

import click

from kraft.cli.client_config import complete_context, read_client_config, without_effect
from kraft.cli.command import kraft
from kraft.cli.contexts import SERVERS, VARIABLE, Contexts
from kraft.cli.options import JSON, print_fields, print_json, print_rows
from kraft.cli.redaction import HIDDEN, is_secret
from kraft.cli.server_config import parse_assignments
from kraft.client.security import security_of
from kraft.config.errors import InvalidConfigError

NAME: Final = click.argument("name", shell_complete=complete_context)


@kraft.group("context")
def context_group() -> None:
    """Name clusters, and choose the one that commands connect to.

    A named cluster has addresses and the client properties for them, in a file that only its user can read.
    """


@context_group.command("set")
@NAME
@click.option("--bootstrap-server", "servers", metavar="HOST:PORT[,...]", help="Nodes to contact first.")
@click.option("--properties", "file", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Properties of a Kafka client, which replace those that the name has.")
@click.option("-X", "--property", "assignments", multiple=True, metavar="KEY=VALUE",
              help="A property over those; an empty value removes it. May be given again. Passwords belong into a "
                   "file: other users of this machine can read command lines.")
def set_command(name: str, servers: str | None, file: Path | None, assignments: tuple[str, ...]) -> None:
    """Create or change a named cluster. The first one becomes the current one."""
    contexts = Contexts()
    known = contexts.names()
    if file is not None:
        properties = read_client_config(file)
    else:
        properties = contexts.read(name) if name in known else {}
    properties |= parse_assignments(assignments, "--property")
    properties = {key: value for key, value in properties.items() if value}
    if servers is not None:
        properties[SERVERS] = servers
    if not properties.get(SERVERS):
        raise click.UsageError(f"{name!r} needs addresses: --bootstrap-server, or {SERVERS} in the file")
    if others := without_effect(properties):
        raise InvalidConfigError(f"context {name!r}: without effect here: {', '.join(others)}")
    security_of(properties)         # reports what cannot be used, before anything is written
    contexts.write(name, properties)
    if not known:
        contexts.use(name)
    click.echo(f"{name}: {'changed' if name in known else 'created'}{'' if known else ', and the current one'}")


@context_group.command("use")
@click.argument("name", required=False, shell_complete=complete_context)
@click.option("--none", "unset", is_flag=True, help="No cluster is the current one.")
def use_command(name: str | None, unset: bool) -> None:
    """Choose the cluster that commands connect to."""
    if (name is None) != unset:
        raise click.UsageError("either NAME or --none")
    Contexts().use(name)
    click.echo("no context" if name is None else name)


@context_group.command("list")
@JSON
def list_command(as_json: bool) -> None:
    """List the named clusters."""
    contexts = Contexts()
    current = contexts.current()
    rows = []
    for name in contexts.names():
        properties = contexts.read(name)
        rows.append({"name": name, "current": name == current, "bootstrap_servers": properties.get(SERVERS),
                     "protocol": security_of(properties).protocol})
    print_rows(as_json, rows, ("name", "current", "addresses", "protocol"), [list(row.values()) for row in rows])
    if (variable := os.environ.get(VARIABLE)) is not None and not as_json:
        click.echo(f"kraft: {VARIABLE} is set, and takes precedence: {variable or 'no context'}", err=True)


@context_group.command("show")
@click.argument("name", required=False, shell_complete=complete_context)
@JSON
def show_command(name: str | None, as_json: bool) -> None:
    """Show the properties of a cluster, without its secrets [default: of the current one]."""
    contexts = Contexts()
    chosen = name or os.environ.get(VARIABLE) or contexts.current()
    if chosen is None:
        raise InvalidConfigError("no context is the current one: kraft context use NAME")
    shown = {key: HIDDEN if is_secret(key) else value for key, value in sorted(contexts.read(chosen).items())}
    if as_json:
        print_json([{"name": chosen, "properties": shown}])
    else:
        click.secho(chosen, bold=True)
        print_fields(shown.items())


@context_group.command("delete")
@NAME
def delete_command(name: str) -> None:
    """Remove a named cluster from the settings. The cluster itself does not change."""
    Contexts().delete(name)
    click.echo(f"{name}: deleted")
