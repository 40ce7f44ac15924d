"""Our node beside Apache Kafka 4.3.1 with its defaults, both on this machine and in one run.

    python -m bench.macro.peer [--quick] [--only TEXT] [--beside CHECKOUT] [--directory DIR]

Both nodes are loaded alternately, the other one stopped, because shared machines change their speed from second to
second. A ratio is the median of the ratios turn by turn. Every load is measured once right after the start (`fresh`).
Then Kafka is warmed with every kind of load until its compilers rest, and everything is measured. Needs Java and Maven.
With `--beside` the peer is another version of this project, and Java is not needed.
The table is written as JSON to bench/out, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click

from bench.macro.figures import Figure, Row, chosen, comparison
from bench.macro.options import BESIDE, DIRECTORY, ONLY, QUICK
from bench.macro.rows import LOADS, client_rows, load_rows, memory_row, paced_rows, restart_row, start_rows, topic_rows
from bench.macro.servers import KafkaServer, KraftServer
from tests.peer.kafka import missing


def loads() -> Iterator[Row]:
    """Yield the loads of produce, fetch and metadata requests, by name; librdkafka with its defaults."""
    for load in LOADS:
        yield load[0], partial(load_rows, load=load)
    yield "librdkafka, 100 B", partial(client_rows, record_bytes=100, data_bytes=300_000_000, produce_aim=0.35,
                                       consume_aim=0.7)
    yield "librdkafka, 1024 B", partial(client_rows, record_bytes=1024, data_bytes=600_000_000, produce_aim=0.5,
                                        consume_aim=1.0)


def rows() -> Iterator[Row]:
    """Yield the rows by name, in the order in which they are run."""
    yield from loads()
    yield "paced", paced_rows
    yield "memory after the load", partial(memory_row, aim=200, absolute=True)
    yield "CreateTopics", partial(topic_rows, one_ms=3.0, many_seconds=0.3)
    yield "start, 1,300 topics after kill -9", restart_row


@click.command()
@QUICK
@ONLY
@BESIDE
@DIRECTORY
def main(quick: bool, only: tuple[str, ...], beside: Path | None, directory: Path) -> None:
    """Measure our node beside Apache Kafka."""
    if beside is None and (reason := missing()) is not None:
        raise click.ClickException(f"needs Apache Kafka as a peer, or --beside: {reason}")
    peer = KafkaServer if beside is None else partial(KraftServer, checkout=beside)
    with comparison("peer", directory, KraftServer, peer, quick=quick) as run:
        run.report.add(start_rows(
            run.pair, Figure("start, fresh", "to the first Metadata reply", "s", 0.4, absolute=True),
            Figure("memory after the start", "resident", "MB", 64, absolute=True)))
        if not quick:
            run.measure_fresh(chosen(loads(), only))
            run.warm(chosen(loads(), only))
        run.measure(chosen(rows(), only))


if __name__ == "__main__":
    main()
