"""`kraft gateway`: produce by POST and consume as server-sent events, for devices and browsers."""

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kraft.cli.command import kraft
from kraft.cli.listening import parse_listen, url_of
from kraft.cli.options import BOOTSTRAP, JSON, print_json
from kraft.client import Cluster
from kraft.client.security import current
from kraft.runtime.base.descriptors import default_connections_max, raise_limit

if TYPE_CHECKING:
    from kraft.gateway.settings import Limits

PORT_DEFAULT: Final = 8088


@kraft.command("gateway")
@click.option("--listen", default=f"127.0.0.1:{PORT_DEFAULT}", show_default=True, metavar="HOST:PORT",
              help="Address of the HTTP server; port 0 is any free one.")
@click.option("--login", type=click.Choice(["shared", "user"]), default="shared", show_default=True,
              help="Whose login the cluster sees: that of --client-config, or the one that each request has.")
@click.option("--tokens-file", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Bearer tokens, one in each line, of which every request needs one.")
@click.option("--tls-certificate", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Certificate chain in PEM; then the server has TLS.")
@click.option("--tls-key", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Its key in PEM.")
@click.option("--cors-origin", "origins", multiple=True, metavar="ORIGIN",
              help="Origin whose pages may use the gateway, or *; may be given again.")
@click.option("--limit", "limits", multiple=True, metavar="NAME=VALUE",
              help="A limit of docs/gateway.md, such as subscribers=20000; may be given again.")
@click.option("--check", is_flag=True, help="Only check the settings, and that the cluster accepts the login.")
@BOOTSTRAP
@JSON
def gateway_command(bootstrap: str, listen: str, login: str, tokens_file: Path | None, tls_certificate: Path | None,
                    tls_key: Path | None, origins: tuple[str, ...], limits: tuple[str, ...], check: bool,
                    as_json: bool) -> None:
    """Serve HTTP: produce by POST, consume as server-sent events. Needs the extra `gateway`.

    The page / describes the requests.
    """
    import httptools  # noqa: F401 - the first of the extra's modules, whose absence is reported

    from kraft.gateway.identity import Guard
    from kraft.gateway.listener import tls_context
    from kraft.gateway.settings import Settings

    wanted = parse_listen(listen)
    if (tls_certificate is None) != (tls_key is None):
        raise click.UsageError("--tls-certificate and --tls-key are needed together")
    settings = Settings(bootstrap, current(), login, str(tokens_file or ""), origins,  # type: ignore[arg-type]
                        limits_of(limits))
    Guard(settings)
    context = None if tls_certificate is None else tls_context(str(tls_certificate), str(tls_key))
    if login == "shared":
        with Cluster(bootstrap) as cluster:     # the library would retry without reporting the reason
            cluster.check_access()
    if check:
        click.echo("gateway: settings and login are accepted")
        return
    # Imported here: the check needs no server.
    from kraft.gateway.server import serve

    scheme = "http" if context is None else "https"

    def ready(address: tuple[str, int]) -> None:
        url = url_of(scheme, *address)
        if as_json:
            print_json([{"url": url}])
        else:
            click.echo(f"gateway: {url}")
        sys.stdout.flush()

    raise_limit()
    serve(replace(settings, limits=_possible(settings.limits)), wanted, context=context, ready=ready)


def _possible(limits: "Limits") -> "Limits":
    """Return the limits with as many connections as the process may have descriptors for."""
    return replace(limits, connections=min(limits.connections, default_connections_max()))


def limits_of(assignments: tuple[str, ...]) -> "Limits":
    """Return the limits with those of the command line. Raises `click.UsageError` that names a wrong one."""
    from kraft.gateway.settings import Limits

    defaults = asdict(Limits())
    found: dict[str, Any] = {}
    for text in assignments:
        name, _, value = text.partition("=")
        if name not in defaults:
            raise click.UsageError(f"--limit {name}: unknown; known are {', '.join(defaults)}")
        is_float = isinstance(defaults[name], float)
        try:
            found[name] = float(value) if is_float else int(value)
        except ValueError:
            found[name] = 0
        if not 0 < found[name] < 1e12:
            kind = "a number" if is_float else "a whole number"
            raise click.UsageError(f"--limit {text}: allowed is {kind} above 0")
    return Limits(**found)
