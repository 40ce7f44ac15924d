"""Three combined nodes of ours beside three of Apache Kafka 4.3.1, replication 3, min.insync.replicas 2, in one run.

    python -m bench.macro.cluster [--quick] [--ours] [--only TEXT] [--beside CHECKOUT] [--directory DIR]

The clusters are loaded alternately, the other one's processes stopped. Processor time and memory are those of all three
processes of a cluster together. Kafka is measured at three ages, because its figures differ by ten times between them:

- `first`: librdkafka's first records in a new cluster, then batches of 1 MiB, of several clusters;
- `fresh`: one turn of every load, one after the other;
- then it is warmed until its compilers rest, which takes minutes, and everything is measured.

`--ours` runs no peer; with `--beside` the peer is another version of this project. Both need no Java. The table is
written as JSON to bench/out, too. `operations` measures restarts and moves, `failover` kills.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import click

from bench.macro.clusters import KafkaCluster, KraftCluster
from bench.macro.figures import Figure, Row, chosen, comparison
from bench.macro.options import BESIDE, DIRECTORY, ONLY, OURS, QUICK
from bench.macro.rows import CLUSTER_LOADS, LARGE, client_rows, load_rows, memory_row, start_rows, topic_rows
from tests.peer.kafka import missing

FIRST_CLUSTERS: Final = 3
FIRST_BYTES: Final = 30_000_000, 100_000_000
"""Bytes of 100 B and of 1 KiB records, after which Kafka shows the figures on which these rows' aims are based.

They are 192 k/s at 80 s of processor time a gigabyte, and 64 k/s at 26; 142 MB/s at 12.2 for batches of 1 MiB.
"""


def clients(small_bytes: int, large_bytes: int) -> Iterator[Row]:
    """Yield the rows of librdkafka with that much data of records of 100 B and of 1 KiB."""
    for record_bytes, data_bytes, rate_aim in ((100, small_bytes, 2.0), (1024, large_bytes, 3.0)):
        yield f"librdkafka, {record_bytes} B", partial(
            client_rows, record_bytes=record_bytes, data_bytes=data_bytes, produce_aim=0.3, consume_aim=None,
            rate_aim=rate_aim)


def loads() -> Iterator[Row]:
    """Yield the produce loads, by name."""
    for load in CLUSTER_LOADS:
        yield load[0], partial(load_rows, load=load)
    yield from clients(300_000_000, 600_000_000)


def firsts() -> Iterator[Row]:
    """Yield the loads of a new cluster's first clients, and then batches of 1 MiB."""
    yield from clients(*FIRST_BYTES)
    yield from chosen(loads(), (LARGE[0],))


def rows() -> Iterator[Row]:
    """Yield the rows by name, in the order in which they are run."""
    yield from loads()
    yield "memory after the load", partial(memory_row, aim=0.2, absolute=False)
    yield "CreateTopics", partial(topic_rows, one_ms=8.0, many_seconds=1.0)


@click.command()
@QUICK
@OURS
@ONLY
@BESIDE
@DIRECTORY
def main(quick: bool, ours: bool, only: tuple[str, ...], beside: Path | None, directory: Path) -> None:
    """Measure three nodes of ours, beside three of Apache Kafka."""
    if not ours and beside is None and (reason := missing()) is not None:
        raise click.ClickException(f"needs Apache Kafka as a peer, --ours or --beside: {reason}")
    peer = KafkaCluster if beside is None else partial(KraftCluster, checkout=beside)
    with comparison("cluster", directory, KraftCluster, None if ours else peer, quick=quick) as run:
        if not (quick or ours):
            run.measure_first(chosen(firsts(), only), FIRST_CLUSTERS)
        run.report.add(start_rows(run.pair, Figure("3 nodes up", "all list all three", "s", 1.0, absolute=True),
                                  Figure("memory after the start", "resident, without file pages", "MB", 0.2),
                                  file_pages=False))
        if not (quick or ours):
            run.measure_fresh(chosen(loads(), only))
            run.warm(chosen(loads(), only))
        run.measure(chosen(rows(), only))


if __name__ == "__main__":
    main()
