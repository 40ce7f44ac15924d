"""A partition directory that the command line names."""

from pathlib import Path

import click

from kraft.files.partition import Partition
from kraft_native.errors import InvalidArgumentError


def open_partition(directory: Path) -> Partition:
    """The partition; what is none is wrong usage."""
    try:
        return Partition(directory)
    except InvalidArgumentError as error:
        raise click.UsageError(str(error)) from error
