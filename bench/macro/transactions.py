"""Transactions on our nodes beside Apache Kafka 4.3.1, in one run.

    python -m bench.macro.transactions [--nodes 1|3] [--quick] [--only TEXT] [--directory DIR]

librdkafka's transactional producers load both alternately, the other one stopped. With three nodes every topic, the
coordinator's included, has three replicas, and min.insync.replicas is 2. Kafka is warmed before. The time of a
transaction is that from its first record to the answer to its end. Needs Java and Maven. The table is written as JSON
to bench/out, too.
"""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

import click
from confluent_kafka import Producer

from bench.commit.quorums import cpu_seconds
from bench.macro.clusters import KafkaCluster, KraftCluster
from bench.macro.figures import Figure, Pair, Row, chosen, comparison
from bench.macro.options import DIRECTORY, ONLY, OURS, QUICK
from bench.macro.servers import KafkaServer, KraftServer, Server
from bench.macro.topics import delete_topics
from kraft.client import Cluster
from kraft.client.topics import create_topic
from kraft.load.measure import Measurement, measure
from kraft.load.workload import Workload
from tests.peer.kafka import missing

VALUE: Final = bytes(100)
PRODUCERS: Final = 16
REQUEST_SECONDS: Final = 60
READ_TRANSACTIONS: Final = 4_000
READ_RECORDS: Final = 100
"""Transactions in a topic that is read, and records of each."""


class _Producers:
    """Transactional producers of librdkafka on a new topic, each with a partition of its own."""

    def __init__(self, server: Server, count: int) -> None:
        self._server = server
        self.topic = f"transactions-{uuid.uuid4().hex[:8]}"
        with Cluster(server.bootstrap) as cluster:
            create_topic(cluster, self.topic, count)
        self._producers = [Producer({
            "bootstrap.servers": server.bootstrap, "transactional.id": f"{self.topic}-{number}", "linger.ms": 0})
            for number in range(count)]
        for producer in self._producers:
            producer.init_transactions(REQUEST_SECONDS)

    def run(self, records: int, *, seconds: float = float("inf"), transactions: int = 1 << 62) -> list[float]:
        """Run transactions of that many records on all producers until one of the limits; return their seconds."""
        with ThreadPoolExecutor(len(self._producers)) as threads:
            runs = [threads.submit(self._loop, partition, records, seconds, transactions)
                    for partition in range(len(self._producers))]
            return [each for run in runs for each in run.result()]

    def _loop(self, partition: int, records: int, seconds: float, transactions: int) -> list[float]:
        producer, taken = self._producers[partition], list[float]()
        end = time.monotonic() + seconds
        while len(taken) < transactions and (begun := time.monotonic()) < end:
            producer.begin_transaction()
            for _ in range(records):
                producer.produce(self.topic, VALUE, partition=partition)
            producer.commit_transaction(REQUEST_SECONDS)
            taken.append(time.monotonic() - begun)
        return taken

    def close(self) -> None:
        self._producers.clear()
        delete_topics(self._server, [self.topic])


def latency_rows(pair: Pair, records: int, aim: float | None) -> list[Figure]:
    """Measure one producer's transactions of that many records, one after the other."""
    row = f"transaction of {records:,} records, 1 producer"

    def run(server: Server) -> tuple[float, ...]:
        producers = _Producers(server, 1)
        try:
            producers.run(records, seconds=pair.seconds / 4)
            before = cpu_seconds(server.pids)
            taken = producers.run(records, seconds=pair.seconds)
            used = cpu_seconds(server.pids) - before
        finally:
            producers.close()
        return statistics.median(taken) * 1e3, used / len(taken) * 1e6

    return pair.alternate(run, (Figure(row, "p50", "ms", aim), Figure(row, "server CPU", "us each", 0.25)))


def rate_rows(pair: Pair, records: int, aim: float | None) -> list[Figure]:
    """Measure transactions of that many records of sixteen producers at once."""
    row = f"transactions of {records:,} records, {PRODUCERS} producers"

    def run(server: Server) -> tuple[float, ...]:
        producers = _Producers(server, PRODUCERS)
        try:
            producers.run(records, seconds=pair.seconds / 4)
            before, begun = cpu_seconds(server.pids), time.monotonic()
            count = len(producers.run(records, seconds=pair.seconds))
            elapsed, used = time.monotonic() - begun, cpu_seconds(server.pids) - before
        finally:
            producers.close()
        return count / elapsed, used / count * 1e6

    return pair.alternate(run, (Figure(row, "rate", "per s", aim, "more"), Figure(row, "server CPU", "us each", 0.25)))


def read_rows(pair: Pair) -> list[Figure]:
    """Measure Fetch with read_committed of a topic of transactions, and the processor time of read_committed as a share
    of that of read_uncommitted."""
    row = f"Fetch, transactions of {READ_RECORDS} records"
    written = {server.name: _Producers(server, 1) for server in pair.servers}

    def read(server: Server, *, committed: bool) -> Measurement:
        load = Workload("fetch", topic=written[server.name].topic, committed=committed)
        with Cluster(server.bootstrap) as cluster:
            found = measure(load, cluster, seconds=pair.seconds, warmup=pair.seconds / 4, pids=server.pids)
        if found.errors:
            raise RuntimeError(f"{server.name}, {row}: {found.errors} errors, the first {found.first_error}")
        return found

    def run(server: Server) -> tuple[float, ...]:
        uncommitted, committed = read(server, committed=False), read(server, committed=True)
        before, after = (each.cpu_seconds_per_gigabyte or 0.0 for each in (uncommitted, committed))
        return committed.megabytes_per_second or 0.0, after, after / before if before else float("inf")

    try:
        for producers in written.values():
            producers.run(READ_RECORDS, transactions=max(1, int(READ_TRANSACTIONS * pair.bytes_scale)))
        return pair.alternate(run, (
            Figure(row, "read_committed, rate", "MB/s", None, "more"),
            Figure(row, "read_committed, server CPU", "s/GB", None),
            Figure(row, "read_committed, CPU of read_uncommitted", "x", 1.05, absolute=True)))
    finally:
        for producers in written.values():
            producers.close()


def loads() -> Iterator[Row]:
    """Yield the rows of transactions, by name."""
    yield "latency, 1", partial(latency_rows, records=1, aim=0.35)
    yield "latency, 100", partial(latency_rows, records=100, aim=0.35)
    yield "latency, 10,000", partial(latency_rows, records=10_000, aim=None)
    yield "rate, 1", partial(rate_rows, records=1, aim=4.0)
    yield "rate, 100", partial(rate_rows, records=100, aim=4.0)


@click.command()
@click.option("--nodes", type=click.Choice(["1", "3"]), default="3", show_default=True, help="Nodes, and replicas.")
@QUICK
@OURS
@ONLY
@DIRECTORY
def main(nodes: str, quick: bool, ours: bool, only: tuple[str, ...], directory: Path) -> None:
    """Measure transactions on our nodes beside Apache Kafka."""
    if not ours and (reason := missing()) is not None:
        raise click.ClickException(f"needs Apache Kafka as a peer, or --ours: {reason}")
    node, peer = (KraftCluster, KafkaCluster) if nodes == "3" else (KraftServer, KafkaServer)
    with comparison(f"transactions-{nodes}", directory, node, None if ours else peer, quick=quick) as run:
        for server in run.pair.servers:
            server.start()
        if not (quick or ours):
            run.warm(chosen(loads(), only))
        run.measure(chosen([*loads(), ("read", read_rows)], only))


if __name__ == "__main__":
    main()
