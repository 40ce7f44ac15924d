"""The top of the `kraft` command: its parts, its version and its exit codes.

A part is a module of this package that registers itself when it is imported. It is imported only when it is used, so a
starting node does not wait for the imports of all the tools.

Exit codes: 0 done, 1 the command found what it searched for (damage) or failed, 2 wrong usage, 130 interrupted by
Ctrl-C, 141 the reader of the output closed it. The last two print no traceback.
"""

import importlib
import io
import os
import platform
import signal
import sys
from typing import Final

import click

from kraft._version import __version__
from kraft.garbage import collections_off
from kraft_native.base import build_info, crc
from kraft_native.base.errors import KraftError

EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_BROKEN_PIPE = 128 + signal.SIGPIPE
COMPLETION_VARIABLE: Final = "_KRAFT_COMPLETE"

# The extra of the package that installs a module which only some commands need.
EXTRA_WITH: Final = {
    "boto3": "backup", "botocore": "backup", "confluent_kafka": "node", "cryptography": "node", "fastavro": "pipeline",
    "google": "pipeline", "hdrh": "node", "httptools": "gateway", "jinja2": "console", "jwt": "node",
    "matplotlib": "bench", "numpy": "pipeline", "pandas": "pipeline", "prometheus_client": "node",
    "pyarrow": "pipeline", "pyspark": "spark",
    "rich": "node", "starlette": "console", "uvicorn": "console", "uvloop": "node", "yaml": "bench",
}
# Parts of the command whose extra brings everything that they import.
EXTRA_OF_PART: Final = {"pipeline": "pipeline", "spark": "spark"}

# The parts in the order of the help; each has a module of its name.
PARTS: Final = ("server", "storage", "topics", "configs", "features", "groups", "transactions", "produce", "consume",
                "users", "tokens", "acls", "cluster", "brokers", "leaders", "quorum", "metadata", "security", "certs",
                "clients", "gateway", "audit", "backup", "why", "top", "debug", "context", "console", "log", "spark",
                "pipeline", "bench", "simulate", "completion")


class Parts(click.Group):
    """Group that imports a part when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the order is the same everywhere
        return list(PARTS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in PARTS and cmd_name not in self.commands:
            try:
                with collections_off():
                    importlib.import_module(f"kraft.cli.{cmd_name}")
            except ModuleNotFoundError as error:
                if package_of(error) not in EXTRA_WITH:
                    raise
                return without_extra(cmd_name, error)
        return super().get_command(ctx, cmd_name)


def package_of(error: ModuleNotFoundError) -> str:
    """Return the package that is not installed."""
    return (error.name or "").partition(".")[0]


def missing_text(part: str, error: ModuleNotFoundError) -> str:
    """Return the sentence that says how to install what a part needs."""
    package = package_of(error)
    return f"{package} is not installed: pip install 'kraft[{EXTRA_OF_PART.get(part, EXTRA_WITH[package])}]'"


def without_extra(part: str, error: ModuleNotFoundError) -> click.Command:
    """Return the command that stands for a part whose extra is not installed: the help of all parts shows it too."""
    def fail(arguments: tuple[str, ...]) -> None:  # noqa: ARG001 - those of the part
        raise error

    rest = click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)
    return click.Command(part, callback=fail, params=[rest], help=f"{missing_text(part, error)}.",
                         context_settings={"ignore_unknown_options": True})


def version_text() -> str:
    """Return the output of `--version`: the release, the build of the core, this machine's checksum kernel, and the
    library of TLS."""
    # Imported here: no other command needs it before it connects.
    from kraft.tls.library import library_text

    return (f"kraft {__version__}\n"
            f"core: {build_info.flavour()} build, {build_info.compiler()}, Cython {build_info.cython_version()}, "
            f"{platform.python_implementation()} {platform.python_version()} on {platform.machine()}\n"
            f"crc32c: {crc.kernel_name()} (of {', '.join(crc.kernels())})\n"
            f"tls: {library_text()}")


def print_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(version_text())
        context.exit()


@click.group(cls=Parts, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=print_version,
              help="Show the version, the build and the CRC kernel in use.")
def kraft() -> None:
    """A replicated log engine that speaks Apache Kafka's files and protocol."""


def run(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code. Errors of the engine and missing packages are reported in one line."""
    if shell := os.environ.get(COMPLETION_VARIABLE):
        return complete(shell)
    escape_undecodable()
    given = sys.argv[1:] if arguments is None else arguments
    try:
        with kraft.make_context("kraft", list(given)) as context:
            kraft.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The buffered rest has no reader; without this the interpreter complains about it at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except KraftError as error:
        click.echo(f"kraft: {error}", err=True)
        return 1
    except ModuleNotFoundError as error:
        if package_of(error) not in EXTRA_WITH:
            raise
        click.echo(f"kraft: {missing_text(next(iter(given), ''), error)}", err=True)
        return 1
    return 0


def escape_undecodable() -> None:
    """Make standard output accept every text.

    Names of files, headers and groups may hold bytes that are not UTF-8. Python keeps them as lone surrogates, which
    no encoding writes. They are written as `\\udcff`, which is JSON's escape for them inside a JSON text.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def complete(shell: str) -> int:
    """Answer a shell that completes a word."""
    from click.shell_completion import shell_complete

    return shell_complete(kraft, {}, "kraft", COMPLETION_VARIABLE, shell)
