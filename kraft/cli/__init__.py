"""The `kraft` command. Each part of it is a module that registers itself with `command.kraft`."""

import sys

from kraft.garbage import collections_off

__all__ = ["main"]


def main() -> None:
    """Run the command line of this process, and exit with its code."""
    with collections_off():
        from kraft.cli.command import run
    sys.exit(run())
