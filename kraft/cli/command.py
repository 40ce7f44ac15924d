"""The top of the `kraft` command: its groups, its version, and how it ends.

Exit codes: 0 done, 1 the command found what it looked for (damage) or failed, 2 wrong usage, 130 interrupted by
Ctrl-C, 141 the reader of the output went away. None of the last two prints a traceback.
"""

import os
import platform
import signal
import sys

import click

from kraft._version import __version__
from kraft_native import build_info, crc
from kraft_native.errors import KraftError

EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_BROKEN_PIPE = 128 + signal.SIGPIPE


def version_text() -> str:
    """What `--version` prints: the release, how the core was built, and the checksum kernel that this machine uses."""
    return (f"kraft {__version__}\n"
            f"core: {build_info.flavour()} build, {build_info.compiler()}, Cython {build_info.cython_version()}, "
            f"{platform.python_implementation()} {platform.python_version()} on {platform.machine()}\n"
            f"crc32c: {crc.kernel_name()} (of {', '.join(crc.kernels())})")


def print_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(version_text())
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=print_version,
              help="Show the version, the build and the CRC kernel in use.")
def kraft() -> None:
    """A replicated log engine that speaks Apache Kafka's files and protocol."""


def run(arguments: list[str] | None = None) -> int:
    """Runs the command and gives its exit code. Errors of the engine are told in one line."""
    try:
        with kraft.make_context("kraft", sys.argv[1:] if arguments is None else arguments) as context:
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
        # What is still buffered has no reader; without this the interpreter complains about it while it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except KraftError as error:
        click.echo(f"kraft: {error}", err=True)
        return 1
    return 0


def main() -> None:
    sys.exit(run())
