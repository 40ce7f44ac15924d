"""The engine's figures beside the machine's own limits, measured in the same run.

    python -m bench.engine [--quick] [--only TEXT] [--directory DIR]

Prints a table and writes it as JSON and SVG to bench/out. Every row is the median of several turns in which the limit
and the engine alternate, because shared machines change their speed from second to second. The ratio is the median of
the ratios turn by turn. First, most of the free memory is touched once. In a fresh virtual machine the first touch of a
page costs many times more, and without this the first rows would bear that cost for all.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import click
from rich.console import Console

from bench import rows_codec, rows_compact, rows_log, rows_lookup, rows_machine, rows_read
from bench.machine import OUT, begin, describe
from bench.table import Bench, Row, save, show

GROUPS = (rows_machine.rows, rows_log.rows, rows_read.rows, rows_lookup.rows, rows_codec.rows, rows_compact.rows)


@click.command()
@click.option("--quick", is_flag=True, help="A tenth of the bytes and two turns: to see that everything runs.")
@click.option("--only", default="", help="Only rows whose name contains this text.")
@click.option("--directory", type=click.Path(file_okay=False, path_type=Path), default=OUT,
              help="Where the logs of the run are written; its disk is the one that is measured.")
def main(quick: bool, only: str, directory: Path) -> None:
    console = Console(width=150)
    home = begin(console, directory, "engine", touch=not quick)
    bench = Bench(home, 0.1 if quick else 1.0, 2 if quick else 5, only)
    rows: list[Row] = []
    try:
        for group in GROUPS:
            for row in group(bench):
                rows.append(row)
                console.print(f"  {row.summary()}", highlight=False)
    finally:
        shutil.rmtree(home)
    show(rows, "The engine beside the machine")
    save(rows, OUT / "engine", f"kraft engine on {describe()}")
    missed = [row.name for row in rows if row.met is False]
    console.print(f"targets met: {sum(row.met is True for row in rows)}, missed: {len(missed)}")
    for name in missed:
        console.print(f"  missed: {name}")


if __name__ == "__main__":
    main()
