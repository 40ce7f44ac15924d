"""The `kraft` command. Each group of commands is a module that registers itself with `command.kraft`."""

from kraft.cli import log
from kraft.cli.command import main

__all__ = ["log", "main"]
