"""The `kraft` command."""

from kraft.cli.command import main

__all__ = ["main"]
