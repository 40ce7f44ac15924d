"""Shared parts of `kraft produce` and `kraft consume`: settings and errors of their client library."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import click
from confluent_kafka import KafkaError, KafkaException

from kraft.cli.options import TIMEOUT_SECONDS_DEFAULT, Seconds
from kraft.cli.record_lines import LineFormat
from kraft.client import Cluster
from kraft.client.library_errors import library_error
from kraft.client.sasl import library_settings
from kraft.client.security import PLAINTEXT, PREFIXES, current, secured, security_of_library

Command = Callable[..., None]

_SILENT: Final = logging.getLogger("kraft.cli.librdkafka")
_ESCAPES: Final = {r"\t": "\t", r"\n": "\n", r"\0": "\0"}


def line_options(command: Command) -> Command:
    """Add the options for the format of lines and for settings of the client."""
    for option in (
        click.option("-X", "--property", "--command-property", "properties", multiple=True, metavar="KEY=VALUE",
                     help="A setting of librdkafka, such as security.protocol; may be given again."),
        click.option("--timeout", default=TIMEOUT_SECONDS_DEFAULT, show_default=True,
                     type=Seconds(), help="Seconds to wait for the cluster."),
        click.option("--null", metavar="TEXT", help="The line, or key, that stands for null."),
        click.option("--key-separator", metavar="TEXT", help=r"What stands between key and value; \t is a tabulator."),
    ):
        command = option(command)
    return command


def line_format(as_json: bool, key_separator: str | None, null: str | None) -> LineFormat:
    """Return the format that the options select."""
    if key_separator == "":
        raise click.UsageError("--key-separator is empty")
    for escape, character in _ESCAPES.items():
        key_separator = key_separator and key_separator.replace(escape, character)
    return LineFormat(as_json, None if key_separator is None else key_separator.encode(),
                      None if null is None else null.encode())


@contextmanager
def client_settings(bootstrap: str, given: Mapping[str, str], ours: Mapping[str, Any],
                    timeout: float) -> Iterator[dict[str, Any]]:
    """Return the library's settings; the user's take precedence. The library logs nothing: errors are reported once,
    here.

    Inside the block our own connections have the library's security. The cluster is contacted once before, because the
    library retries for as long as it may without reporting the reason. Raises what `Cluster.any` raises.
    """
    _SILENT.addHandler(logging.NullHandler())
    _SILENT.propagate = False
    security = security_of_library(given) if any(name.startswith(PREFIXES) for name in given) else current()
    settings = {"bootstrap.servers": bootstrap, "client.id": "kraft", "logger": _SILENT,
                **library_settings(security or PLAINTEXT), **ours, **given}
    with secured(security or PLAINTEXT):
        if security is not None:
            with Cluster(settings["bootstrap.servers"], timeout=timeout) as cluster:
                cluster.check_access()
        yield settings


class Outages:
    """Client's `error_cb`: reports when a cluster that answered before is unreachable. The library keeps retrying."""

    def __init__(self) -> None:
        self.answered = False

    def __call__(self, error: KafkaError) -> None:
        if self.answered and error.code() == KafkaError._ALL_BROKERS_DOWN:
            click.echo("kraft: no broker can be reached; waiting for one", err=True)


@contextmanager
def library_errors(what: str) -> Iterator[None]:
    """Convert the library's errors into ours, which name the request."""
    try:
        yield
    except KafkaException as error:
        raise library_error(what, error.args[0]) from error
