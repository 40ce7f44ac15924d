"""Tail latency of a paced producer, while another client reads data that is not in memory and the cleaner runs."""

from __future__ import annotations

import errno
import os
import random
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from bench.macro.servers import Server
from bench.macro.topics import delete_topics
from kraft.client import Cluster
from kraft.client.partitions import EARLIEST, offset_of
from kraft.client.topics import create_topic
from kraft.load import workload as parts
from kraft.load.measure import fill
from kraft.load.places import open_all, producers
from kraft.load.workload import Workload
from kraft.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from kraft.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from kraft_native.bench.load_generator import Load

RATE: Final = 5_000.0
RECORD_BYTES: Final = 100
IN_FLIGHT_MAX: Final = 200
COLD_BYTES: Final = 2_000_000_000
FETCH_BYTES: Final = 1 << 20
COMPACTED_BYTES: Final = 300_000_000
COMPACTED_VALUE_BYTES: Final = 1_000
COMPACTED_SEGMENT_BYTES: Final = 32 << 20
KEYS: Final = 100_000
WARMUP_SECONDS: Final = 1.0
SECONDS_MIN: Final = 4.0
SECONDS_MAX: Final = 40.0
SAMPLES: Final = 40
COLD_SHARE_MIN: Final = 0.95
FORGET_TIMES: Final = 10
FORGET_SECONDS: Final = 0.2
TOPIC: Final = 2
SET: Final = 0
# The cleaner ignores younger records: so it waits until the measurement begins.
LAG_MS: Final = "min.compaction.lag.ms"


class PacedRun:
    """One measurement of one server. It creates its topics, and removes them in `close`."""

    def __init__(self, server: Server, scale: float) -> None:
        self.server = server
        self.scale = scale
        mark = uuid.uuid4().hex[:8]
        self.paced = Workload("produce", 1, IN_FLIGHT_MAX, RATE, RECORD_BYTES, topic=f"paced-{mark}")
        self.cold = Workload("fetch", 1, 1, record_bytes=1024, batch_bytes=FETCH_BYTES // 2, fetch_bytes=FETCH_BYTES,
                             topic=f"cold-{mark}")
        self.compacted = f"compacted-{mark}"
        self.requests = int(COLD_BYTES * scale) // (FETCH_BYTES // 2)

    def prepare(self) -> None:
        """Fill the topics, write everything to the disk and drop the pages that the client will read."""
        with Cluster(self.server.bootstrap) as cluster:
            create_topic(cluster, self.paced.topic, 1)
            create_topic(cluster, self.cold.topic, 1)
            create_topic(cluster, self.compacted, 1, configs={
                "cleanup.policy": "compact", "segment.bytes": str(COMPACTED_SEGMENT_BYTES), LAG_MS: str(1 << 40),
                "min.cleanable.dirty.ratio": "0.01"})
            fill(self.cold, cluster, int(COLD_BYTES * self.scale))
        self._fill_compacted()
        os.sync()
        for path in self._files(self.cold.topic):
            forget(path)

    def _files(self, topic: str) -> list[Path]:
        return sorted((self.server.data / f"{topic}-0").glob("*.log"))

    def _fill_compacted(self) -> None:
        producer = Producer({"bootstrap.servers": self.server.bootstrap, "linger.ms": 20,
                             "queue.buffering.max.messages": 1_000_000})
        keys, value = random.Random(1), os.urandom(COMPACTED_VALUE_BYTES)
        for number in range(int(COMPACTED_BYTES * self.scale) // COMPACTED_VALUE_BYTES):
            producer.produce(self.compacted, value, b"%d" % keys.randrange(KEYS))
            if number % 1000 == 0:
                producer.poll(0)
        if left := producer.flush(120):
            raise RuntimeError(f"{self.server.name}: {left} records were not acknowledged")

    def measure(self) -> tuple[float, float, float]:
        """Return p50 and p99.9 in milliseconds from the time at which each record was due, and the MB/s of the reader.
        """
        with Cluster(self.server.bootstrap) as cluster:
            before = self._compacted_bytes(cluster)
            opened = [open_all(producers(each, cluster), cluster)[0] for each in (self.paced, self.cold)]
            try:
                for each in opened:
                    each.connection.socket.settimeout(30)
                first = offset_of(opened[1].connection, self.cold.topic, 0, EARLIEST)
                paced = Load([parts.produce_spec(self.paced, opened[0].connection, opened[0].places)])
                cold = Load([parts.fetch_spec(self.cold, opened[1].connection, opened[1].places[0], first)])
                for each in opened:
                    each.connection.socket.setblocking(False)
                paced.run(WARMUP_SECONDS)
                return self._run(cluster, paced, cold, before)
            finally:
                for each in opened:
                    each.connection.close()

    def _run(self, cluster: Cluster, paced: Load, cold: Load, before: int) -> tuple[float, float, float]:
        """Run the paced load until the other client has read everything and the cleaner has run."""
        _alter(cluster, self.compacted, LAG_MS, "0")
        rates: list[float] = []
        failures: list[BaseException] = []

        def read() -> None:
            result = cold.run(SECONDS_MAX, requests_max=self.requests)
            rates.append(result.records_bytes / result.elapsed_ns * 1e3)

        def watch() -> None:
            until, least = time.monotonic() + SECONDS_MAX, time.monotonic() + SECONDS_MIN
            while time.monotonic() < until and not (
                    rates and time.monotonic() > least and self._compacted_bytes(cluster) < before * 0.9):
                time.sleep(0.5)
            paced.stop()

        threads = [threading.Thread(target=_guarded, args=(work, failures, paced)) for work in (read, watch)]
        for thread in threads:
            thread.start()
        result = paced.run(SECONDS_MAX + 5)
        cold.stop()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        if result.errors:
            raise RuntimeError(f"{self.server.name}: {result.errors} errors, the first {result.first_error}")
        if self._compacted_bytes(cluster) >= before:
            raise RuntimeError(f"{self.server.name}: nothing was compacted in {SECONDS_MAX:g} s")
        return percentile(result.latency, 0.5) / 1e6, percentile(result.latency, 0.999) / 1e6, rates[0]

    def _compacted_bytes(self, cluster: Cluster) -> int:
        request = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=self.compacted, partitions=[0])])
        answer = cluster.any().send(request, DescribeLogDirsResponse)
        return sum(part.partition_size for each in answer.results for topic in each.topics for part in topic.partitions)

    def close(self) -> None:
        delete_topics(self.server, [self.paced.topic, self.cold.topic, self.compacted])


def _guarded(work: Callable[[], None], failures: list[BaseException], load: Load) -> None:
    """Run a thread's work; a failure ends the load, too."""
    try:
        work()
    except BaseException as error:  # noqa: BLE001 - raised by the caller that waits for the thread
        failures.append(error)
        load.stop()


def _alter(cluster: Cluster, topic: str, name: str, value: str) -> None:
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[
        AlterableConfig(name=name, config_operation=SET, value=value)])
    answer = cluster.controller().send(IncrementalAlterConfigsRequest(resources=[resource]),
                                       IncrementalAlterConfigsResponse).responses[0]
    if answer.error_code:
        raise RuntimeError(f"{topic}: {name} cannot be set: {answer.error_code} {answer.error_message}")


def percentile(pairs: list[tuple[int, int]], share: float) -> int:
    """Return the value that `share` of the counted ones do not exceed; `pairs` of (value, count) ascend."""
    left = share * sum(count for _, count in pairs)
    for value, count in pairs:
        left -= count
        if left <= 0:
            return value
    raise RuntimeError("nothing was measured")


def forget(path: Path) -> None:
    """Let the kernel drop a file's pages. Raises RuntimeError when more than a few stay, which a reader would find."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        size = os.fstat(descriptor).st_size
        for _ in range(FORGET_TIMES):  # pages that are in use at the moment stay
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            warm = sum(_in_memory(descriptor, size * number // SAMPLES) for number in range(SAMPLES))
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)  # pages that the check itself loaded
            if size <= FETCH_BYTES or SAMPLES - warm >= COLD_SHARE_MIN * SAMPLES:
                return
            time.sleep(FORGET_SECONDS)
        raise RuntimeError(f"{path}: the kernel kept {warm} of {SAMPLES} pages in memory")
    finally:
        os.close(descriptor)


def _in_memory(descriptor: int, position: int) -> bool:
    try:
        return os.preadv(descriptor, [bytearray(1)], position, os.RWF_NOWAIT) >= 0
    except OSError as error:
        if error.errno != errno.EAGAIN:
            raise
        return False
