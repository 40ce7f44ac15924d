"""The engine beside other embedded stores and queues: every load on all of them, alternately, in one run.

    python -m bench.embedded [--quick] [--page]

`pip install 'kraft[embedded]'` brings the other libraries; one that is missing is left out of the rows. Prints a table
and writes it as JSON to bench/out. `--page` also replaces the table of docs/embedded.md.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import click
from rich.console import Console

from bench.embedded.rows import DISK, Row, Run, installed, rows
from bench.machine import HERE, OUT, begin, describe
from bench.table import number

PAGE = HERE.parent / "docs" / "embedded.md"
TABLE = re.compile(r"(<!-- embedded: made by python -m bench.embedded --page -->\n).*?(<!-- end of embedded -->)",
                   re.DOTALL)
DISTRIBUTIONS = {"LMDB": "lmdb", "RocksDB": "rocksdict", "persist-queue": "persist-queue", "diskcache": "diskcache"}


def versions() -> str:
    """Return the names and versions of the compared libraries."""
    import sqlite3

    found = [f"SQLite {sqlite3.sqlite_version}"]
    found += [f"{DISTRIBUTIONS[name]} {version(DISTRIBUTIONS[name])}" for name in installed() if name in DISTRIBUTIONS]
    return ", ".join(found)


def table(found: list[Row]) -> str:
    """Return the rows as a table of Markdown."""
    sides = list(dict.fromkeys(side for row in found for side in row.runs))
    sides = [*(side for side in sides if side != DISK), *(side for side in sides if side == DISK)]
    lines = [f"| load | unit | {' | '.join(sides)} |", f"|---|---|{'---|' * len(sides)}"]
    for row in found:
        cells = [row.value(side) for side in sides]
        lines.append(f"| {row.name} | {row.unit} | "
                     f"{' | '.join('-' if cell is None else number(cell) for cell in cells)} |")
    return "\n".join(lines) + "\n"


@click.command()
@click.option("--quick", is_flag=True, help="A tenth of the values and two turns: to see that everything runs.")
@click.option("--page", is_flag=True, help="Replace the table of docs/embedded.md.")
@click.option("--directory", type=click.Path(file_okay=False, path_type=Path), default=OUT,
              help="Where the stores are written; its disk is the one that is measured.")
def main(quick: bool, page: bool, directory: Path) -> None:
    console = Console(width=150)
    home = begin(console, directory, "embedded", touch=not quick)
    found: list[Row] = []
    try:
        for row in rows(Run(home, 0.1 if quick else 1.0, 2 if quick else 5)):
            found.append(row)
            shown = ", ".join(f"{side} {number(row.value(side) or 0)}" for side in row.runs)
            console.print(f"  {row.name} ({row.unit}): {shown}", highlight=False)
    finally:
        shutil.rmtree(home)
    machine = f"{describe()}; {versions()}; {datetime.now(UTC):%Y-%m-%d}"
    (OUT / "embedded.json").write_text(json.dumps({"machine": machine, "rows": [asdict(row) for row in found]}))
    console.print(table(found), highlight=False)
    if page:
        text = f"{table(found)}\n{machine}\n"
        PAGE.write_text(TABLE.sub(lambda match: f"{match[1]}{text}{match[2]}", PAGE.read_text()))


if __name__ == "__main__":
    main()
