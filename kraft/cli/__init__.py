"""The `kraft` command. Each part of it is a module that registers itself with `command.kraft`."""

from kraft.cli.command import main

__all__ = ["main"]
