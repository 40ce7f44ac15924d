"""Rows of the comparisons: the actions on both servers, and the aim of each figure."""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from bench.commit.quorums import cpu_seconds
from bench.machine import awake, limit, settle
from bench.macro.figures import Figure, Pair
from bench.macro.librdkafka import Producer
from bench.macro.paced import PacedRun
from bench.macro.servers import Server, resident_megabytes
from bench.macro.topics import BATCH, await_files_removed, await_logs, create_topics, create_up_to, delete_topics
from kraft.client import Cluster
from kraft.client.security import PLAINTEXT, Security
from kraft.client.topics import create_topic
from kraft.garbage import collections_off
from kraft.load.measure import Measurement, fill, measure
from kraft.load.workload import Workload

WARMUP_SECONDS: Final = 1.0
FILLING_SECONDS: Final = 0.3
FILLING_WARMUP_SECONDS: Final = 0.2
FILLING_TURNS: Final = 4
"""Duration and warm-up of one turn of a load that fills the page cache, and its turns for each turn of other loads.

Three copies of the data of such a turn are less than a tenth of the memory, the limit at which the system begins to
write to its disk. Once it does, a server waits for that disk at every few megabytes (the map of free blocks is read
behind the writes). A faster server reaches that point sooner.
"""
CLIENT_TURNS: Final = 2
FILL_BYTES: Final = 1 << 28
LOAD_BYTES_MAX: Final = 2 << 30
GIGABYTE: Final = 1e9
MANY_TOPICS: Final = 1_300
"""Topics before a restart: those of `topic_rows` are fewer."""
UNMEASURED: Final = 20
"""Topics that each turn creates before the measured ones. Before a turn the nodes are stopped by a signal. They catch
up with their timers meanwhile."""
SINGLES: Final = 10
SINGLE_TURNS: Final = 10
"""Topics created one by one in one turn, and its turns."""
BATCH_TURNS: Final = 4
"""Turns of 1,000 topics."""


def start_rows(pair: Pair, elapsed: Figure, memory: Figure, *, file_pages: bool = True) -> list[Figure]:
    """Return the rows of the first start of each, which every run needs. A single node of ours creates its directory in
    it; the peer's is formatted beforehand."""
    def start(server: Server) -> tuple[float, ...]:
        seconds = server.start()
        time.sleep(0.5)
        return seconds, resident_megabytes(server.pids, file_pages=file_pages)
    return pair.alternate(start, (elapsed, memory), turns=1)


Wanted = tuple[str, str, Callable[[Measurement], float | None], float, str]
"""A figure of a measurement: name, unit, value, aim, better direction."""
Load = tuple[str, Workload, tuple[Wanted, ...]]


def p50(aim: float) -> Wanted:
    return "p50", "us", lambda run: run.latency_us["50"], aim, "less"


def rate(aim: float) -> Wanted:
    return "rate", "k/s", lambda run: run.requests_per_second / 1000, aim, "more"


def cpu_each(aim: float) -> Wanted:
    return "server CPU", "us each", lambda run: run.cpu_us_per_request, aim, "less"


def megabytes(aim: float) -> Wanted:
    return "rate", "MB/s", lambda run: run.megabytes_per_second, aim, "more"


def cpu_gigabyte(aim: float) -> Wanted:
    return "server CPU", "s/GB", lambda run: run.cpu_seconds_per_gigabyte, aim, "less"


FETCH_LARGE = "Fetch, 4 connections, 1 MiB", Workload("fetch", 4, 1, record_bytes=1024, batch_bytes=100_000)
PRODUCE_16_KIB = "Produce, 16 KiB of 100 B, 8 x 5", Workload("produce", 8, 5, batch_bytes=16 << 10)
ONE = "Produce, 1 x 100 B, 1 in flight", Workload("produce", 1, 1)
MANY = "Produce, 1 x 100 B, 8 x 8 in flight", Workload("produce", 8, 8)
LARGE = "Produce, 1 MiB of 1 KiB, 4 x 2", Workload("produce", 4, 2, record_bytes=1024, batch_bytes=1_000_000)

LOADS: Final[tuple[Load, ...]] = (
    ("ApiVersions, 8 x 32 in flight", Workload("ping", 8, 32), (rate(4.0), cpu_each(0.2))),
    (*ONE, (p50(0.7), cpu_each(0.4))),
    (*MANY, (rate(5.0), cpu_each(0.15))),
    (*PRODUCE_16_KIB, (megabytes(2.0), cpu_gigabyte(0.3))),
    (*LARGE, (megabytes(1.5), cpu_gigabyte(0.4))),
    (*FETCH_LARGE, (megabytes(2.0), cpu_gigabyte(0.45))),
    ("Fetch, 1 connection, 64 KiB", Workload("fetch", 1, 1, batch_bytes=16 << 10, fetch_bytes=64 << 10),
     (megabytes(2.0), cpu_gigabyte(0.45))),
)
CLUSTER_LOADS: Final[tuple[Load, ...]] = tuple((f"{name}, acks=all", replace(workload, acks=-1), wanted)
                                               for (name, workload), wanted in (
    (ONE, (p50(0.5), cpu_each(0.25))),
    (MANY, (rate(4.0), cpu_each(0.25))),
    (LARGE, (megabytes(2.0), cpu_gigabyte(0.4))),
))


def load_rows(pair: Pair, load: Load) -> list[Figure]:
    """Measure one workload on both. One that waits for each answer also runs while the processors are kept awake."""
    row, workload, wanted = load
    fills = workload.kind == "produce" and workload.batch_bytes > workload.record_bytes
    seconds, warmup = (FILLING_SECONDS, FILLING_WARMUP_SECONDS) if fills else (pair.seconds, WARMUP_SECONDS)
    with own_topic(pair, workload) as own:
        def run(server: Server) -> tuple[float, ...]:
            settle(int(LOAD_BYTES_MAX * pair.bytes_scale) * len(server.pids) if fills else 0)   # each node keeps a copy
            found = measured(row, server, own, seconds, warmup)
            return tuple(figure(found) or 0.0 for _, _, figure, _, _ in wanted)

        def rows_of(name: str) -> list[Figure]:
            figures = tuple(Figure(name, figure, unit, aim, better) for figure, unit, _, aim, better in wanted)
            found = pair.alternate(run, figures, turns=FILLING_TURNS * pair.turns if fills else None)
            return found + _serving_limit(name, pair, own) if own.kind == "fetch" else found

        found = rows_of(row)
        if own.connections == own.in_flight == 1:
            with awake():
                found += rows_of(f"{row}, awake")
        return found


@contextmanager
def own_topic(pair: Pair, workload: Workload) -> Iterator[Workload]:
    """Yield the workload with a topic of its own on both, filled where the workload reads it. The topics are deleted
    afterwards, so that no row pays for another one's data. One that needs no topic stays as it is."""
    if workload.kind == "ping":
        yield workload
        return
    workload = replace(workload, topic=f"load-{uuid.uuid4().hex[:8]}")
    for server in pair.servers:
        with Cluster(server.bootstrap) as cluster:
            create_topic(cluster, workload.topic, workload.connections)
            if workload.kind == "fetch":
                fill(workload, cluster, int(FILL_BYTES * pair.bytes_scale))
    try:
        yield workload
    finally:
        for server in pair.servers:
            delete_topics(server, [workload.topic])


def measured(row: str, server: Server, workload: Workload, seconds: float, warmup: float, *, address: str = "",
             security: Security = PLAINTEXT) -> Measurement:
    """Measure a workload on one server, by default at its plain listener. Raises RuntimeError when it refuses a
    request."""
    with Cluster(address or server.bootstrap, security=security) as cluster:
        found = measure(workload, cluster, seconds=seconds, warmup=warmup, pids=server.pids)
    if found.errors:
        raise RuntimeError(f"{server.name}, {row}: {found.errors} errors, the first {found.first_error}")
    return found


def _serving_limit(row: str, pair: Pair, workload: Workload) -> list[Figure]:
    """Measure one thread in C that sends slices of the same file to as many connections."""
    rate_in_c, cpu_in_c = Figure(row, "rate in C", "MB/s", None, "more"), Figure(row, "CPU in C", "s/GB", None)
    segment = max((pair.ours.data / f"{workload.topic}-0").glob("*.log"), key=lambda path: path.stat().st_size)
    for _ in range(pair.turns):
        found = limit(segment, workload.connections, workload.fetch_bytes, pair.seconds, source="serve_slices.c")
        rate_in_c.ours.append(found["bytes_per_s"] / 1e6)
        cpu_in_c.ours.append(found["cpu_s_per_gb"])
    return [rate_in_c, cpu_in_c]


def client_rows(pair: Pair, record_bytes: int, data_bytes: int, produce_aim: float, consume_aim: float | None,
                rate_aim: float | None = None) -> list[Figure]:
    """Measure librdkafka with its defaults, acks=all among them: the server's processor time per gigabyte of values."""
    row = f"librdkafka, {record_bytes} B"
    figures = (Figure(row, "produce", "k/s", rate_aim, "more"),
               Figure(row, "produce, server CPU", "s/GB", produce_aim),
               Figure(row, "consume, server CPU", "s/GB", consume_aim))
    count = int(data_bytes * pair.bytes_scale) // record_bytes
    value = (bytes(range(256)) * (record_bytes // 256 + 1))[:record_bytes]

    def run(server: Server) -> tuple[float, ...]:
        topic = f"client-{uuid.uuid4().hex[:8]}"
        with Cluster(server.bootstrap) as cluster:
            create_topic(cluster, topic, 1)
        settle(count * record_bytes * len(server.pids))
        before = cpu_seconds(server.pids)
        begin = time.monotonic()
        with Producer({"bootstrap.servers": server.bootstrap}, topic) as producer:
            producer.produce(value, count)
        elapsed = time.monotonic() - begin
        between = cpu_seconds(server.pids)
        _consume(server, topic, count)
        after = cpu_seconds(server.pids)
        delete_topics(server, [topic])
        gigabytes = count * record_bytes / GIGABYTE
        return count / elapsed / 1000, (between - before) / gigabytes, (after - between) / gigabytes
    return pair.alternate(run, figures, turns=CLIENT_TURNS * pair.turns)


def _consume(server: Server, topic: str, count: int) -> None:
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    left, until = count, time.monotonic() + 120
    while left > 0:
        if time.monotonic() > until:
            raise RuntimeError(f"{server.name}: {left} records did not come")
        left -= sum(1 for message in consumer.consume(10_000, 1.0) if message.error() is None)
    consumer.close()


def paced_rows(pair: Pair) -> list[Figure]:
    """Measure a paced producer while another client reads data that is not in memory and the cleaner works. Topics are
    new each time, because the kernel does not drop pages that a server has mapped."""
    row = "paced, 5 k/s of 100 B, cold reader, cleaner"
    figures = (Figure(row, "p50", "ms", None), Figure(row, "p99.9", "ms", 1.0),
               Figure(row, "the cold reader", "MB/s", None, "more"))

    def run(server: Server) -> tuple[float, ...]:
        paced = PacedRun(server, pair.bytes_scale)
        try:
            paced.prepare()
            return paced.measure()
        finally:
            paced.close()
    return pair.alternate(run, figures, turns=min(pair.turns, 2))


def memory_row(pair: Pair, aim: float, *, absolute: bool) -> list[Figure]:
    """Measure memory after the load. It grows with the number of rows that ran before."""
    figure = Figure("memory after the load", "resident, without file pages", "MB", aim, absolute=absolute)
    return pair.alternate(lambda server: (resident_megabytes(server.pids, file_pages=False),), (figure,), turns=1)


def topic_rows(pair: Pair, one_ms: float, many_seconds: float) -> list[Figure]:
    """Measure the creation of topics one by one, in short turns because commits to a disk vary by the minute, and of
    many in a request. A collection of garbage here would be a pause, in which a server does other work."""
    one = Figure("CreateTopics one by one", "p50", "ms", one_ms, absolute=True)
    many = Figure("1,000 topics in 20 requests", "in all", "s", many_seconds, absolute=True)

    def create_singles(server: Server) -> tuple[float, ...]:
        mark = uuid.uuid4().hex[:8]
        with collections_off(), Cluster(server.bootstrap) as cluster:
            singles = [create_topics(cluster, [f"one-{mark}-{i}"]) for i in range(UNMEASURED + SINGLES)]
            await_logs(server, cluster, f"one-{mark}-")
        return (statistics.median(singles[UNMEASURED:]) * 1000,)

    def create_batches(server: Server) -> tuple[float, ...]:
        mark = uuid.uuid4().hex[:8]
        settle(0)
        with collections_off(), Cluster(server.bootstrap) as cluster:
            batches = [create_topics(cluster, [f"many-{mark}-{batch}-{i}" for i in range(BATCH)])
                       for batch in range(20)]
            await_logs(server, cluster, f"many-{mark}-")
        return (sum(batches),)

    for server in pair.servers:
        await_files_removed(server)
    settle(0)
    return (pair.alternate(create_singles, (one,), turns=SINGLE_TURNS)
            + pair.alternate(create_batches, (many,), turns=BATCH_TURNS))


def restart_row(pair: Pair) -> list[Figure]:
    """Measure starts with many topics after kill -9."""
    figure = Figure("start, 1,300 topics after kill -9", "to the first Metadata reply", "s", 2.0, absolute=True)

    def run(server: Server) -> tuple[float, ...]:
        create_up_to(server, MANY_TOPICS)
        server.kill()
        return (server.start(),)
    return pair.alternate(run, (figure,))
