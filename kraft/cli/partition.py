"""Partition directories, and data directories that contain them, named on the command line."""

from pathlib import Path

import click

from kraft.files.partition_files import LOG_FILE, PartitionFiles
from kraft_native.base.errors import InvalidArgumentError


def open_partition(directory: Path) -> PartitionFiles:
    """Open the partition. Any other directory is a usage error."""
    try:
        return PartitionFiles(directory)
    except InvalidArgumentError as error:
        raise click.UsageError(str(error)) from error


def is_data_directory(directory: Path) -> bool:
    """Return whether it has no segments itself but partition directories with segments."""
    return not _has_segments(directory) and any(_has_segments(each) for each in directory.iterdir() if each.is_dir())


def partitions_of(directory: Path) -> list[PartitionFiles]:
    """Return every partition in a data directory, by name, including `-delete`, `-future` and `-stray` directories."""
    return [PartitionFiles(each) for each in sorted(directory.iterdir()) if each.is_dir() and _has_segments(each)]


def _has_segments(directory: Path) -> bool:
    return any(LOG_FILE.fullmatch(path.name) for path in directory.iterdir())
