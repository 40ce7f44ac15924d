"""Partition directories, and data directories full of them, that the command line names."""

from pathlib import Path

import click

from kraft.files.partition import LOG_FILE, Partition
from kraft_native.errors import InvalidArgumentError


def open_partition(directory: Path) -> Partition:
    """The partition; what is none is wrong usage."""
    try:
        return Partition(directory)
    except InvalidArgumentError as error:
        raise click.UsageError(str(error)) from error


def is_data_directory(directory: Path) -> bool:
    """Whether it has no segments itself, but partition directories with some."""
    return not _has_segments(directory) and any(_has_segments(each) for each in directory.iterdir() if each.is_dir())


def partitions_of(directory: Path) -> list[Partition]:
    """Every partition in a data directory, by name. Those renamed to `-delete`, `-future` or `-stray` are included."""
    return [Partition(each) for each in sorted(directory.iterdir()) if each.is_dir() and _has_segments(each)]


def _has_segments(directory: Path) -> bool:
    return any(LOG_FILE.fullmatch(path.name) for path in directory.iterdir())
