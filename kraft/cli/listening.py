"""`--listen` of the commands that serve HTTP."""

from typing import Final

import click

PORT_MAX: Final = 65_535


def parse_listen(text: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`. Raises `click.UsageError` for other texts."""
    host, separator, port = text.rpartition(":")
    host = host.strip("[]")
    if not separator or not host or not port.isascii() or not port.isdecimal() or int(port) > PORT_MAX:
        raise click.UsageError(f"--listen: {text!r} is not HOST:PORT with a port of 0 to 65535")
    return host, int(port)


def url_of(scheme: str, host: str, port: int) -> str:
    """Return the address of a server; an IPv6 one in brackets."""
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
