"""`kraft quorum timeline`: the events of all controllers on one time line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from kraft.cli.number_types import IntRange
from kraft.cli.options import JSON, OUTPUT_FILE
from kraft.cli.recordings import find, source_options
from kraft.recorder.entry import Entry
from kraft.recorder.page import page
from kraft.recorder.ring import CAPACITY
from kraft.recorder.timeline import text_lines

TITLE: Final = "Time line of the metadata quorum"


@click.command("timeline")
@source_options
@click.option("--out", "file", type=OUTPUT_FILE,
              help="Write a file instead: one HTML file that needs no other, text unless it ends in .html.")
@click.option("--last", "count", type=IntRange(1), default=CAPACITY, show_default=True,
              help="Only so many entries.")
@JSON
def timeline_command(directories: tuple[Path, ...], bootstrap: str | None, timeout: float, file: Path | None,
                     count: int, as_json: bool) -> None:
    """Show the events of the controllers: roles, epochs, votes, high watermarks, voters, each with its cause.

    Reads from running controllers (--bootstrap), from files of controllers that need not run, or from both. DIRECTORY
    is a data directory, or the metadata log's in it. Exit code 1 when a controller did not answer.
    """
    found = find(directories, bootstrap, timeout, count)
    entries = found.entries[-count:]
    if file is not None:
        write_timeline(file, entries, TITLE)
    else:
        for line in (entry.line for entry in entries) if as_json else text_lines(entries):
            click.echo(line)
    silent = {**{f"node {node_id}": why for node_id, why in found.silent.items()}, **found.unknown}
    for node, why in silent.items():
        click.echo(f"{node}: {why}", err=True)
    if silent:
        raise click.exceptions.Exit(1)


def write_timeline(path: Path, entries: Sequence[Entry], title: str) -> None:
    """Write a time line as HTML if the file's name ends so, else as text."""
    with path.open("w", encoding="utf-8") as file:
        if path.suffix in (".html", ".htm"):
            file.writelines(page(entries, title))
        else:
            file.writelines(f"{line}\n" for line in text_lines(entries))
