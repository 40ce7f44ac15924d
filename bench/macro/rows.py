"""The rows of the comparison: what is done to both nodes, and what each figure of it should be."""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.machine import touch_memory
from bench.macro.paced import PacedRun
from bench.macro.servers import KafkaServer, KraftServer, Server, cpu_seconds, resident_megabytes
from bench.macro.topics import BATCH, create_topics, create_up_to, delete_topics
from kraft.client import Cluster
from kraft.load.measure import Measurement, create_topic, fill, measure
from kraft.load.workload import Workload

WARMUP_SECONDS: Final = 1.0
FILL_BYTES: Final = 1 << 28
LOAD_BYTES_MAX: Final = 4 << 30
GIGABYTE: Final = 1e9
MANY_TOPICS: Final = 1_300


@dataclass
class Figure:
    """One figure of a row, by turn. `aim` is a ratio to the peer's, or with `absolute` a value in `unit`; None: the
    figure only explains another."""

    row: str
    name: str
    unit: str
    aim: float | None
    better: str = "less"
    absolute: bool = False
    ours: list[float] = field(default_factory=list)
    peers: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """The median of the ratios turn by turn, which holds when the machine's speed drifts."""
        return statistics.median(a / b if b else float("inf") for a, b in zip(self.ours, self.peers, strict=True))

    @property
    def met(self) -> bool | None:
        """None: it has no aim."""
        if self.aim is None:
            return None
        value = statistics.median(self.ours) if self.absolute else self.ratio
        return value >= self.aim if self.better == "more" else value <= self.aim


@dataclass
class Pair:
    """The two nodes and how long and how often to measure."""

    ours: KraftServer
    peer: KafkaServer
    turns: int
    seconds: float
    bytes_scale: float

    def prepare_memory(self, size: int) -> None:
        """Before a turn that fills the page cache, of either node: what it gets must not be the host's to give."""
        touch_memory(at_most=int(size * self.bytes_scale))

    def alternate(self, action: Callable[[Server], tuple[float, ...]],
                  figures: tuple[Figure, ...], turns: int | None = None) -> list[Figure]:
        """Does it to both in turns; who begins changes. The action gives the figures' values in their order."""
        for turn in range(turns or self.turns):
            order: list[Server] = [self.ours, self.peer]
            for server in order if turn % 2 == 0 else reversed(order):
                for figure, value in zip(figures, action(server), strict=True):
                    (figure.ours if server is self.ours else figure.peers).append(value)
        return list(figures)


def start_rows(pair: Pair) -> list[Figure]:
    """The first start of each, which every run needs. Ours makes its directory in it, the peer's was formatted."""
    time_figure = Figure("start, fresh", "to the first Metadata reply", "s", 0.4, absolute=True)
    memory = Figure("memory after the start", "resident", "MB", 64, absolute=True)

    def start(server: Server) -> tuple[float, ...]:
        seconds = server.start()
        time.sleep(0.5)
        return seconds, resident_megabytes(server.pid, file_pages=True)
    return pair.alternate(start, (time_figure, memory), turns=1)


# Row, workload, figures of a measurement with their aims.
Load = tuple[str, Workload, tuple[tuple[str, str, Callable[[Measurement], float | None], float, str], ...]]


def _cpu_us(run: Measurement) -> float | None:
    return run.cpu_us_per_request


def _cpu_gb(run: Measurement) -> float | None:
    return run.cpu_seconds_per_gigabyte


def _rate(run: Measurement) -> float:
    return run.requests_per_second / 1000


def _bytes(run: Measurement) -> float:
    return run.megabytes_per_second


LOADS: Final[tuple[Load, ...]] = (
    ("ApiVersions, 8 x 32 in flight", Workload("ping", 8, 32),
     (("rate", "k/s", _rate, 4.0, "more"), ("server CPU", "us each", _cpu_us, 0.2, "less"))),
    ("Produce, 1 x 100 B, 1 in flight", Workload("produce", 1, 1),
     (("p50", "us", lambda run: run.latency_us["50"], 0.7, "less"), ("server CPU", "us each", _cpu_us, 0.4, "less"))),
    ("Produce, 1 x 100 B, 8 x 8 in flight", Workload("produce", 8, 8),
     (("rate", "k/s", _rate, 5.0, "more"), ("server CPU", "us each", _cpu_us, 0.15, "less"))),
    ("Produce, 16 KiB of 100 B, 8 x 5", Workload("produce", 8, 5, batch_bytes=16 << 10),
     (("rate", "MB/s", _bytes, 2.0, "more"), ("server CPU", "s/GB", _cpu_gb, 0.3, "less"))),
    ("Produce, 1 MiB of 1 KiB, 4 x 2", Workload("produce", 4, 2, record_bytes=1024, batch_bytes=1_000_000),
     (("rate", "MB/s", _bytes, 1.5, "more"), ("server CPU", "s/GB", _cpu_gb, 0.4, "less"))),
    ("Fetch, 4 connections, 1 MiB", Workload("fetch", 4, 1, record_bytes=1024, batch_bytes=100_000),
     (("rate", "MB/s", _bytes, 2.0, "more"), ("server CPU", "s/GB", _cpu_gb, 0.45, "less"))),
    ("Fetch, 1 connection, 64 KiB", Workload("fetch", 1, 1, batch_bytes=16 << 10, fetch_bytes=64 << 10),
     (("rate", "MB/s", _bytes, 2.0, "more"), ("server CPU", "s/GB", _cpu_gb, 0.45, "less"))),
)


def load_rows(pair: Pair, load: Load) -> list[Figure]:
    """One workload on both. The topics go afterwards, so that no row pays for another one's data."""
    row, workload, wanted = load
    workload = _with_topic(workload)
    figures = tuple(Figure(row, name, unit, aim, better) for name, unit, _, aim, better in wanted)
    for server in (pair.ours, pair.peer):
        if workload.kind != "ping":
            with Cluster(server.bootstrap) as cluster:
                create_topic(cluster, workload.topic, workload.connections)
                if workload.kind == "fetch":
                    fill(workload, cluster, int(FILL_BYTES * pair.bytes_scale))

    def run(server: Server) -> tuple[float, ...]:
        if workload.kind == "produce" and workload.batch_bytes > workload.record_bytes:
            pair.prepare_memory(LOAD_BYTES_MAX)
        with Cluster(server.bootstrap) as cluster:
            found = measure(workload, cluster, seconds=pair.seconds, warmup=WARMUP_SECONDS, pid=server.pid)
        if found.errors:
            raise RuntimeError(f"{server.name}, {row}: {found.errors} errors, the first {found.first_error}")
        return tuple(figure(found) or 0.0 for _, _, figure, _, _ in wanted)
    try:
        return pair.alternate(run, figures)
    finally:
        if workload.kind != "ping":
            for server in (pair.ours, pair.peer):
                delete_topics(server, [workload.topic])


def client_rows(pair: Pair, record_bytes: int, data_bytes: int, produce_aim: float, consume_aim: float) -> list[Figure]:
    """librdkafka with its defaults; what the server's processor pays for a gigabyte of values."""
    row = f"librdkafka, {record_bytes} B"
    figures = (Figure(row, "produce, server CPU", "s/GB", produce_aim),
               Figure(row, "consume, server CPU", "s/GB", consume_aim))
    count = int(data_bytes * pair.bytes_scale) // record_bytes

    def run(server: Server) -> tuple[float, ...]:
        topic = f"client-{uuid.uuid4().hex[:8]}"
        with Cluster(server.bootstrap) as cluster:
            create_topic(cluster, topic, 1)
        pair.prepare_memory(2 * data_bytes)
        before = cpu_seconds(server.pid)
        _produce(server, topic, count, record_bytes)
        between = cpu_seconds(server.pid)
        _consume(server, topic, count)
        after = cpu_seconds(server.pid)
        delete_topics(server, [topic])
        gigabytes = count * record_bytes / GIGABYTE
        return (between - before) / gigabytes, (after - between) / gigabytes
    return pair.alternate(run, figures)


def _produce(server: Server, topic: str, count: int, record_bytes: int) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap})
    value = bytes(range(256)) * (record_bytes // 256 + 1)
    for i in range(count):
        while True:
            try:
                producer.produce(topic, value[:record_bytes])
                break
            except BufferError:
                producer.poll(0.05)
        if i % 1000 == 0:
            producer.poll(0)
    if left := producer.flush(60):
        raise RuntimeError(f"{server.name}: {left} records were not acknowledged")


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
    """A paced producer while another client reads what is not in memory and the cleaner works. New topics each time:
    what a server has mapped the kernel does not forget."""
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


def memory_row(pair: Pair) -> list[Figure]:
    """After the load: whoever ran more rows before has more to show."""
    figure = Figure("memory after the load", "resident, without file pages", "MB", 200, absolute=True)
    return pair.alternate(lambda server: (resident_megabytes(server.pid, file_pages=False),), (figure,), turns=1)


def _with_topic(workload: Workload) -> Workload:
    return Workload(workload.kind, workload.connections, workload.in_flight, workload.rate, workload.record_bytes,
                    workload.batch_bytes, workload.acks, workload.codec, workload.fetch_bytes,
                    f"load-{uuid.uuid4().hex[:8]}")


def topic_rows(pair: Pair) -> list[Figure]:
    """Creating topics one by one, and many in a request."""
    one = Figure("CreateTopics one by one", "p50", "ms", 3.0, absolute=True)
    many = Figure("1,000 topics in 20 requests", "in all", "s", 0.3, absolute=True)

    def run(server: Server) -> tuple[float, ...]:
        with Cluster(server.bootstrap) as cluster:
            mark = uuid.uuid4().hex[:8]
            single = [create_topics(cluster, [f"one-{mark}-{i}"]) for i in range(30)]
            batches = [create_topics(cluster, [f"many-{mark}-{batch}-{i}" for i in range(BATCH)])
                       for batch in range(20)]
        return statistics.median(single) * 1000, sum(batches)
    return pair.alternate(run, (one, many), turns=1)


def restart_row(pair: Pair) -> list[Figure]:
    """Starts with many topics after kill -9."""
    figure = Figure("start, 1,300 topics after kill -9", "to the first Metadata reply", "s", 2.0, absolute=True)

    def run(server: Server) -> tuple[float, ...]:
        create_up_to(server, MANY_TOPICS)
        server.kill()
        return (server.start(),)
    return pair.alternate(run, (figure,))
