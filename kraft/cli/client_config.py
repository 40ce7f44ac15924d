"""`--client-config FILE`: properties of a Kafka client, for every command that connects to a cluster.

Kafka's tools name the option `--command-config`, which is accepted too.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from kraft.client.security import PLAINTEXT, PREFIXES, secured, security_of
from kraft.config.errors import InvalidConfigError
from kraft_native.base.errors import InvalidArgumentError

Command = Callable[..., None]

SERVERS: Final = "bootstrap.servers"
USED: Final = (SERVERS, "client.id")
_META: Final = "kraft.client-config"


def read_client_config(path: Path) -> dict[str, str]:
    """Return the file's properties. `InvalidConfigError` names a file that is not readable as properties."""
    import javaproperties

    try:
        return dict(javaproperties.loads(path.read_text("utf-8")))
    except (OSError, UnicodeDecodeError, javaproperties.InvalidUEscapeError) as error:
        raise InvalidConfigError(f"client config {path}: {error}") from error


def _read(context: click.Context, _parameter: click.Parameter, path: Path | None) -> None:
    """Apply the file's security settings to all connections of the command."""
    security = PLAINTEXT
    properties: dict[str, str] = {}
    if path is not None:
        properties = read_client_config(path)
        try:
            security = security_of(properties)
        except InvalidArgumentError as error:
            raise InvalidConfigError(f"client config {path}: {error}") from error
        others = sorted(name for name in properties if name not in USED and not name.startswith(PREFIXES))
        if others:
            click.echo(f"kraft: {path}: without effect here: {', '.join(others)}", err=True)
    context.meta[_META] = properties
    context.with_resource(secured(security))


def servers_of_file(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Callback of `--bootstrap`: without the option the file's servers are used."""
    given = context.get_parameter_source(parameter.name or "")
    if given in (click.core.ParameterSource.COMMANDLINE, click.core.ParameterSource.ENVIRONMENT):
        return value
    found: str | None = context.meta.get(_META, {}).get(SERVERS)
    return found or value


CLIENT_CONFIG: Final = click.option(
    "--client-config", "--command-config", type=click.Path(path_type=Path, exists=True, dir_okay=False), is_eager=True,
    expose_value=False, callback=_read,
    help="Properties of a Kafka client: bootstrap.servers, security.protocol, ssl.*, sasl.*, client.id.")


def bootstrap_options(**settings: Any) -> Callable[[Command], Command]:
    """Add `--bootstrap` with these settings, and `--client-config`."""
    option = click.option("--bootstrap", metavar="HOST:PORT[,...]", callback=servers_of_file, **settings)
    return lambda command: option(CLIENT_CONFIG(command))
