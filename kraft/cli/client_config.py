"""The cluster that a command connects to: `--bootstrap`, `--client-config FILE`, or a named one (`kraft context`).

`--client-config` names properties of a Kafka client. Kafka's tools spell these options `--bootstrap-server` and
`--command-config`, which are accepted too.

By precedence the addresses come from `--bootstrap`, the file, `--context`, the variable of contexts, the variable of
addresses, the current context, and the default. Credentials of a context go only to the addresses that its user named:
its own, or those of a `--bootstrap` beside an explicit `--context`.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from kraft.cli.contexts import SERVERS, VARIABLE, Contexts
from kraft.config.errors import InvalidConfigError
from kraft_native.base.errors import InvalidArgumentError

Command = Callable[..., None]

USED: Final = (SERVERS, "client.id")
_META: Final = "kraft.client-config"
_FILE: Final = "kraft.client-config.file"
_CONTEXT: Final = "kraft.context"
_IMPLIED: Final = "kraft.context.implied"


def read_client_config(path: Path) -> dict[str, str]:
    """Return the file's properties. `InvalidConfigError` names a file that is not readable as properties."""
    import javaproperties

    try:
        return dict(javaproperties.loads(path.read_text("utf-8")))
    except (OSError, UnicodeDecodeError, javaproperties.InvalidUEscapeError) as error:
        raise InvalidConfigError(f"client config {path}: {error}") from error


def without_effect(properties: dict[str, str]) -> list[str]:
    """Return the names of properties that do nothing here."""
    # Imported here and below: the start of a node, which connects to no cluster as a client, does not wait for it.
    from kraft.client.security import PREFIXES

    return sorted(name for name in properties if name not in USED and not name.startswith(PREFIXES))


def _read(context: click.Context, _parameter: click.Parameter, path: Path | None) -> None:
    """Apply the file's security settings to all connections of the command."""
    from kraft.client.security import PLAINTEXT, secured

    if path is None:
        context.with_resource(secured(PLAINTEXT))
        context.meta[_META] = {}
        return
    context.meta[_FILE] = path
    properties = read_client_config(path)
    _apply(context, properties, f"client config {path}")
    if others := without_effect(properties):
        click.echo(f"kraft: {path}: without effect here: {', '.join(others)}", err=True)


def _apply(context: click.Context, properties: dict[str, str], where: str) -> None:
    from kraft.client.security import secured, security_of

    try:
        security = security_of(properties)
    except InvalidArgumentError as error:
        raise InvalidConfigError(f"{where}: {error}") from error
    context.meta[_META] = properties
    context.with_resource(secured(security))


def _note_context(context: click.Context, parameter: click.Parameter, name: str | None) -> None:
    """Keep the name: what it means depends on the other options."""
    is_given = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
    context.meta[_CONTEXT] = (name, is_given)


def chosen_servers(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return the addresses that the options name, and apply the security of a named cluster. Callback of `--bootstrap`.

    An option without a default stays None where nothing was named: its command decides (`implied_servers`).
    """
    source = context.get_parameter_source(parameter.name or "")
    name, is_given = context.meta.get(_CONTEXT, (None, False))
    if is_given and _FILE in context.meta:
        raise click.UsageError("--context and --client-config both say how to connect")
    from_file: str | None = context.meta.get(_META, {}).get(SERVERS)
    if _FILE in context.meta:
        return value if source in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT) else from_file or value
    if is_given or (name and source is not ParameterSource.COMMANDLINE):
        found = _use(context, name)
        return value if source is ParameterSource.COMMANDLINE else found or value
    if source in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT) or value is None:
        return value
    return implied_servers(value)


def implied_servers(default: str) -> str:
    """Return the addresses of the current context, with its security applied to the command's connections; `default`
    where there is none, or where the command line has settings of its own."""
    context = click.get_current_context(silent=True)
    if context is None or _FILE in context.meta or os.environ.get(VARIABLE) == "":     # set to nothing: no context
        return default
    if _IMPLIED not in context.meta:
        name = Contexts().current()
        context.meta[_IMPLIED] = None if name is None else _use(context, name)
    return str(context.meta[_IMPLIED] or default)


def chosen_properties() -> dict[str, str]:
    """Return the properties of the client that the running command is."""
    context = click.get_current_context(silent=True)
    return {} if context is None else dict(context.meta.get(_META, {}))


def _use(context: click.Context, name: str) -> str | None:
    properties = Contexts().read(name)
    _apply(context, properties, f"context {name!r}")
    return properties.get(SERVERS)


def complete_context(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the named clusters with this prefix."""
    return [name for name in Contexts().names() if name.startswith(incomplete)]


CLIENT_CONFIG: Final = click.option(
    "--client-config", "--command-config", type=click.Path(path_type=Path, exists=True, dir_okay=False), is_eager=True,
    expose_value=False, callback=_read,
    help="Properties of a Kafka client: bootstrap.servers, security.protocol, ssl.*, sasl.*, client.id.")
CONTEXT: Final = click.option(
    "--context", metavar="NAME", envvar=VARIABLE, is_eager=True, expose_value=False, callback=_note_context,
    shell_complete=complete_context, help=f"A named cluster (kraft context); also {VARIABLE}.")


def bootstrap_options(**settings: Any) -> Callable[[Command], Command]:
    """Add `--bootstrap` with these settings, `--client-config` and `--context`."""
    option = click.option("--bootstrap", "--bootstrap-server", "bootstrap", metavar="HOST:PORT[,...]",
                          callback=chosen_servers, **settings)
    return lambda command: option(CONTEXT(CLIENT_CONFIG(command)))
