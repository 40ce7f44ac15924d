"""Sources of flight recorder entries: running controllers, or the files of controllers that do not run."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from kraft.cli.client_config import bootstrap_options, implied_servers
from kraft.cli.options import ADDRESS_DEFAULT, BOOTSTRAP_VARIABLE, Seconds
from kraft.client import Cluster
from kraft.client.recorder import collect
from kraft.config.errors import InvalidConfigError
from kraft.recorder.entry import Entry, parse
from kraft.recorder.timeline import merged
from kraft.runtime.quorum.recorder_file import NAME, OLD_NAME, read_entries
from kraft.runtime.storage.metadata_directory import DIRECTORY_NAME

SECONDS_DEFAULT: Final = 5.0

Command = Callable[..., None]


@dataclass(slots=True)
class Found:
    """Entries of all nodes in the order of time. `running` are the nodes that answered. `silent` has the reasons why
    nodes did not, by id; `unknown` has them by address."""

    entries: list[Entry] = field(default_factory=list)
    running: tuple[int, ...] = ()
    silent: dict[int, str] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)


def query_options(command: Command) -> Command:
    """Add `--bootstrap` and `--timeout`."""
    for option in (
        click.option("--timeout", default=SECONDS_DEFAULT, show_default=True, type=Seconds(),
                     help="Seconds that one controller may take."),
        bootstrap_options(envvar=BOOTSTRAP_VARIABLE,
                          help=f"Nodes to contact first; also {BOOTSTRAP_VARIABLE} [default, without a directory: "
                               f"{ADDRESS_DEFAULT}]."),
    ):
        command = option(command)
    return command


def source_options(command: Command) -> Command:
    """Add `DIRECTORY...` and the options of `query_options`."""
    return click.argument("directories", nargs=-1, metavar="[DIRECTORY]...",
                          type=click.Path(path_type=Path, exists=True, file_okay=False))(query_options(command))


def find(directories: tuple[Path, ...], bootstrap: str | None, timeout: float, count: int) -> Found:
    """Return the last `count` entries of each controller that answers, and all entries of the files."""
    found = Found()
    entries = [entry for directory in directories for entry in read_entries(_with_files(directory))]
    if bootstrap is not None or not directories:
        with Cluster(bootstrap or implied_servers(ADDRESS_DEFAULT), timeout=timeout) as cluster:
            collected = collect(cluster, count)
        entries += [parse(line) for lines in collected.lines.values() for line in lines]
        found.running, found.silent, found.unknown = tuple(collected.lines), collected.silent, collected.unknown
    found.entries = merged(entries)
    return found


def entries_of(directory: Path) -> list[Entry]:
    """Return the entries of a flight recorder in a data directory or in the metadata log's. Without one, as beside
    Apache Kafka's log, there are none."""
    return [entry for each in (directory, directory / DIRECTORY_NAME) for entry in read_entries(each)]


def _with_files(directory: Path) -> Path:
    """Return the metadata log's directory: the given one, or the one in the given data directory."""
    for each in (directory, directory / DIRECTORY_NAME):
        if (each / NAME).exists() or (each / OLD_NAME).exists():
            return each
    raise InvalidConfigError(f"DIRECTORY: {directory}: neither it nor {DIRECTORY_NAME} in it has a {NAME}")
