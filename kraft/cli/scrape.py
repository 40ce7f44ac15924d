"""A node's HTTP listener, as the command reads it: metrics, readiness, stacks."""

import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import click

from kraft_native.base.errors import KraftError

ANSWER_BYTES_MAX: Final = 256 << 20

Command = Callable[..., None]


class ScrapeError(KraftError):
    """A node's listener for metrics does not answer; the message names it."""


class Access(NamedTuple):
    """Access to the listeners: the token, "" for none, the file of the authorities that sign them, and seconds."""

    token: str
    authorities: Path | None
    timeout: float


def access_options(command: Command) -> Command:
    """Add `--metrics`, `--metrics-token-file` and `--metrics-ca`."""
    for option in (
        click.option("--metrics-ca", type=click.Path(path_type=Path, exists=True, dir_okay=False),
                     help="Certificates (PEM) that sign those of the listeners [default: the system's]."),
        click.option("--metrics-token-file", type=click.Path(path_type=Path, exists=True, dir_okay=False),
                     help="File whose first line is the listeners' token (kraft.metrics.token.file)."),
        click.option("--metrics", "listeners", multiple=True, metavar="[https://]HOST:PORT",
                     help="A node's listener for metrics (kraft.metrics.listener); may be given again."),
    ):
        command = option(command)
    return command


def access_of(token_file: Path | None, authorities: Path | None, timeout: float) -> Access:
    """Return the access that the options describe. Raises `ScrapeError` for a file that has no token."""
    token = ""
    if token_file is not None:
        token = next(iter(token_file.read_text("utf-8", "replace").split()), "")
        if not token:
            raise ScrapeError(f"{token_file}: the file of the token is empty")
    return Access(token, authorities, timeout)


def fetch(listener: str, path: str, access: Access, *, any_status: bool = False) -> str:
    """Return the answer of a path. Raises `ScrapeError` when there is none, or one of another status than 200 unless
    `any_status`."""
    address = listener if "://" in listener else f"http://{listener}"
    if not address.startswith(("http://", "https://")):
        raise ScrapeError(f"{listener}: not of the form HOST:PORT or https://HOST:PORT")
    request = urllib.request.Request(f"{address.rstrip('/')}{path}")        # noqa: S310 - one of the two schemes
    if access.token:
        request.add_header("Authorization", f"Bearer {access.token}")
    context = ssl.create_default_context(cafile=access.authorities) if address.startswith("https://") else None
    try:
        with urllib.request.urlopen(request, timeout=access.timeout, context=context) as answer:   # noqa: S310
            return str(answer.read(ANSWER_BYTES_MAX).decode("utf-8", "replace"))
    except urllib.error.HTTPError as error:
        with error:
            text = error.read(ANSWER_BYTES_MAX).decode("utf-8", "replace")
        if any_status:
            return text
        raise ScrapeError(f"{listener}{path}: status {error.code}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise ScrapeError(f"{listener}{path}: {reason}") from error
