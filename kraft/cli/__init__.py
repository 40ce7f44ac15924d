"""The `kraft` command. Each group of commands is a module that registers itself with `command.kraft`."""

from kraft.cli import bench, log
from kraft.cli.command import main

__all__ = ["bench", "log", "main"]
