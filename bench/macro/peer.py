"""Our node beside Apache Kafka 4.3.1 with its defaults, both on this machine and in one run.

    python -m bench.macro.peer [--quick] [--only TEXT] [--directory DIR]

Both nodes run all the time and are loaded in turns, because shared machines change their speed from second to second;
a ratio is the median of the ratios turn by turn. Kafka is warmed with every kind of load before the first row. Needs
Java and Maven. The table is written as JSON to bench/out, too.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import click
from rich.console import Console

from bench.machine import OUT, begin
from bench.macro.figures import Figure, Pair, Report
from bench.macro.rows import LOADS, client_rows, load_rows, memory_row, paced_rows, restart_row, start_rows, topic_rows
from bench.macro.servers import KafkaServer, KraftServer
from tests.peer.kafka import missing

WARM_SECONDS = 3.0

Row = tuple[str, Callable[[Pair], list[Figure]]]


def client_loads() -> Iterator[Row]:
    """What librdkafka does with its defaults, by name."""
    yield "librdkafka, 100 B", partial(client_rows, record_bytes=100, data_bytes=200_000_000, produce_aim=0.35,
                                       consume_aim=0.7)
    yield "librdkafka, 1024 B", partial(client_rows, record_bytes=1024, data_bytes=500_000_000, produce_aim=0.5,
                                        consume_aim=1.0)


def rows() -> Iterator[Row]:
    """By name, in the order in which they are run."""
    for load in LOADS:
        yield load[0], partial(load_rows, load=load)
    yield from client_loads()
    yield "paced", paced_rows
    yield "memory after the load", partial(memory_row, aim=200, absolute=True)
    yield "CreateTopics", partial(topic_rows, one_ms=3.0, many_seconds=0.3)
    yield "start, 1,300 topics after kill -9", restart_row


@click.command()
@click.option("--quick", is_flag=True, help="One short turn of each row: to see that everything runs.")
@click.option("--only", default="", help="Only rows whose name contains this text.")
@click.option("--directory", type=click.Path(file_okay=False, path_type=Path), default=OUT,
              help="Where both nodes keep their data.")
def main(quick: bool, only: str, directory: Path) -> None:
    """Measure our node beside Apache Kafka."""
    console = Console(width=150)
    if (reason := missing()) is not None:
        raise click.ClickException(f"needs Apache Kafka as a peer: {reason}")
    home = begin(console, directory, "peer", touch=not quick)
    if quick:
        console.print("quick: nothing is warmed, so the peer's figures mean little")
    begun = time.monotonic()
    pair = Pair(KraftServer(home / "kraft"), KafkaServer(home / "kafka"), 1 if quick else 3, 1.0 if quick else 2.0,
                0.2 if quick else 1.0)
    report = Report(console)
    try:
        _run(pair, console, report, only, quick)
    finally:
        pair.stop()
        shutil.rmtree(home, ignore_errors=True)
        report.show()
        report.save(directory / "peer.json")
    console.print(f"{time.monotonic() - begun:.0f} s in all", highlight=False)


def _run(pair: Pair, console: Console, report: Report, only: str, quick: bool) -> None:
    report.add(start_rows(pair, Figure("start, fresh", "to the first Metadata reply", "s", 0.4, absolute=True),
                          Figure("memory after the start", "resident", "MB", 64, absolute=True)))
    if not quick:
        warm = Pair(pair.ours, pair.peer, 1, WARM_SECONDS, 0.2)
        for name, row in [(load[0], partial(load_rows, load=load)) for load in LOADS] + list(client_loads()):
            if only in name:
                row(warm)
        console.print("both are warm")
    for name, row in rows():
        if only in name:
            report.add(row(pair))


if __name__ == "__main__":
    main()
