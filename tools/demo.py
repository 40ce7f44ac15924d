"""`make demo`: a node is started, a real data set goes through it with a real client, and every byte is compared.

The data set is the text of Python's standard library without its tests, which every machine has. Each line is a
record, and its key is the file's name. librdkafka (confluent-kafka) produces the records with idempotence and reads
them back as a group. All lines of a file have one key, so they go to one partition and keep their order: a digest per
file proves it. Then the node is killed with a signal that it cannot catch and started again, and the data set is read
a second time. At the end `kraft bench` loads the node, and its figures are printed beside the limits of the machine.
"""

import contextlib
import hashlib
import json
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.machine import kernel, limit
from kraft.client import Cluster
from kraft.client.topics import create_topic
from kraft.load.measure import Measurement, fill, measure
from kraft.load.workload import Workload
from kraft_native.base import crc
from tools.demo_engine import Line, lines

TOPIC = "stdlib"
PARTITIONS = 4
START_SECONDS = 20
READ_SECONDS = 60
BENCH_SECONDS = 3.0
BENCH_FILL_BYTES = 1 << 28
LIMIT_SECONDS = 0.3
# What one record of 100 B is as a batch; an answer of ApiVersions, about.
SMALL_BATCH_BYTES = 170
ECHO_BYTES = 512
# The client reports on standard error that a killed node is offline; this program knows it.
QUIET = {"log_level": 0}

Digests = dict[bytes, str]


class Node:
    """`kraft server start` as a process of its own."""

    def __init__(self, data: Path) -> None:
        self.data = data
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"

    def start(self) -> float:
        """Starts it and waits for its ready line; gives the seconds that took."""
        begun = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kraft", "server", "start", "--data", str(self.data), "--listen", self.address,
             "--set", "group.initial.rebalance.delay.ms=0", "--json"], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the node did not start: exit code {self.process.wait()}")
        json.loads(line)
        return time.perf_counter() - begun

    def kill(self) -> None:
        """kill -9."""
        self.process.send_signal(signal.SIGKILL)
        self._reap()

    def stop(self) -> int:
        """Stop the node cleanly; return its exit code."""
        self.process.terminate()
        return self._reap()

    def _reap(self) -> int:
        code = self.process.wait(START_SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


def digests(data: Iterator[Line]) -> Digests:
    """A digest per file, over its lines in order."""
    sums: dict[bytes, Any] = {}
    for key, value in data:
        found = sums.get(key)
        if found is None:
            found = sums[key] = hashlib.sha256()
        found.update(b"%d " % len(value))
        found.update(value)
    return {key: found.hexdigest() for key, found in sums.items()}


def produce(address: str, data: list[Line], progress: Progress) -> float:
    """Sends every line; gives the seconds until all are acknowledged."""
    refused: list[str] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            refused.append(str(error))

    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "compression.type": "lz4",
                         "linger.ms": 5, "queue.buffering.max.messages": 500_000, **QUIET})
    task = progress.add_task("produce", total=len(data))
    begun = time.perf_counter()
    for number, (key, value) in enumerate(data):
        while True:
            try:
                producer.produce(TOPIC, value, key, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 10_000 == 0:
            producer.poll(0)
            progress.update(task, completed=number)
    left = producer.flush(READ_SECONDS)
    progress.update(task, completed=len(data))
    if left or refused:
        raise SystemExit(f"{left} records were not acknowledged, {len(refused)} were refused: {refused[:1]}")
    return time.perf_counter() - begun


def consume(address: str, group: str, count: int, progress: Progress) -> tuple[Digests, float]:
    """Reads everything as a group; gives the digests of what came and the seconds it took."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest",
                         "enable.auto.commit": False, **QUIET})
    consumer.subscribe([TOPIC])
    task = progress.add_task(f"consume ({group})", total=count)
    found: list[Line] = []
    begun = time.perf_counter()
    deadline = begun + READ_SECONDS
    with contextlib.closing(consumer):
        while len(found) < count and time.perf_counter() < deadline:
            for message in consumer.consume(20_000, 0.5):
                if message.error() is not None:
                    raise KafkaException(message.error())
                found.append((message.key() or b"", message.value() or b""))
            progress.update(task, completed=len(found))
        seconds = time.perf_counter() - begun
        consumer.commit(asynchronous=False)
    if len(found) != count:
        raise SystemExit(f"{len(found)} records came back of {count}")
    return digests(iter(found)), seconds


def compare(what: str, found: Digests, wanted: Digests) -> None:
    """Ends the demo when one file's lines are not what was sent."""
    wrong = [key for key in wanted if found.get(key) != wanted[key]]
    if wrong or len(found) != len(wanted):
        raise SystemExit(f"{what}: {len(wrong)} of {len(wanted)} files came back changed, the first is {wrong[:1]}")


def bench(node: Node) -> list[tuple[str, Measurement]]:
    """The node under load, with its process's CPU time."""
    loads = [
        ("ApiVersions, 8 connections x 32 in flight", Workload("ping", 8, 32)),
        ("Produce, 1 record of 100 B, 8 x 8 in flight", Workload("produce", 8, 8, topic="bench-small")),
        ("Produce, 16 KiB batches, 8 x 5 in flight", Workload("produce", 8, 5, batch_bytes=16_384, topic="bench-16k")),
        ("Fetch, 1 MiB, 4 connections", Workload("fetch", 4, record_bytes=1024, batch_bytes=1 << 20,
                                                 topic="bench-fetch")),
    ]
    runs = []
    with Cluster(node.address) as cluster:
        for name, load in loads:
            if load.kind != "ping":
                create_topic(cluster, load.topic, load.connections)
            if load.kind == "fetch":
                fill(load, cluster, BENCH_FILL_BYTES)
            runs.append((name, measure(load, cluster, seconds=BENCH_SECONDS, warmup=0.5, pids=(node.process.pid,))))
    return runs


def limits(node: Node, scratch: Path) -> list[str]:
    """Figures of one thread in C on this machine, row by row of `bench`."""
    segment = max((node.data / "bench-fetch-0").glob("*.log"), key=lambda path: path.stat().st_size)
    echo = limit(segment, 8, ECHO_BYTES, LIMIT_SECONDS, source="serve_slices.c")["bytes_per_s"] / ECHO_BYTES
    small, large = (limit("write", scratch / f"limit-{size}", size, count, "new")["bytes_per_s"] / 1e6
                    for size, count in ((SMALL_BATCH_BYTES, 1 << 24), (16 << 10, 1 << 28)))
    served = limit(segment, 4, 1 << 20, LIMIT_SECONDS, source="serve_slices.c")["bytes_per_s"] / 1e6
    return [f"{echo:,.0f}/s loopback, 8 x 1 in flight", f"{small:,.0f} MB/s page cache, {SMALL_BATCH_BYTES} B",
            f"{large:,.0f} MB/s page cache, 16 KiB", f"{served:,.0f} MB/s loopback, 1 MiB"]


def figures(runs: list[tuple[str, Measurement]], machine: list[str]) -> Table:
    """The table at the end."""
    copied, checked = limit("memcpy", 16 << 10, LIMIT_SECONDS)["bytes_per_s"] / 1e9, kernel(bytes(16 << 10))
    table = Table("load", "requests/s", "MB/s", "p50 us", "p99 us", "server CPU\nus/request", "one thread in C",
                  title=f"of 16 KiB blocks this machine copies {copied:,.1f} GB/s, and checks {checked:,.1f} GB/s "
                        f"(CRC, {crc.kernel_name()})")
    for column in table.columns[1:]:
        column.justify = "right"
    for (name, run), most in zip(runs, machine, strict=True):
        table.add_row(name, f"{run.requests_per_second:,.0f}", f"{run.megabytes_per_second:,.0f}",
                      f"{run.latency_us['50']:,.0f}", f"{run.latency_us['99']:,.0f}", f"{run.cpu_us_per_request:.1f}",
                      most)
    return table


def main() -> int:
    console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 140)
    data = lines()
    wanted = digests(iter(data))
    size = sum(len(key) + len(value) for key, value in data)
    console.print(f"{len(data):,} lines of {len(wanted):,} files of Python's standard library, {size / 1e6:.1f} MB of "
                  "keys and values\n")
    top = Path(tempfile.mkdtemp(prefix="kraft-demo-"))
    node = Node(top / "data")
    try:
        console.print(f"node started in {node.start():.2f} s, listening on {node.address}")
        admin = AdminClient({"bootstrap.servers": node.address, **QUIET})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result()
        with Progress(console=console) as progress:
            sent = produce(node.address, data, progress)
            found, read = consume(node.address, "first", len(data), progress)
            compare("first reading", found, wanted)
            node.kill()
            restarted = node.start()
            again, _ = consume(node.address, "after the kill", len(data), progress)
            compare("after kill -9", again, wanted)
        console.print(f"\n{len(data):,} records produced in {sent:.1f} s ({size / sent / 1e6:,.0f} MB/s) and consumed "
                      f"in {read:.1f} s ({size / read / 1e6:,.0f} MB/s).\nThe node was killed (SIGKILL) and back in "
                      f"{restarted:.2f} s. Read twice: all {len(wanted):,} files came back byte for byte, in order.\n")
        runs = bench(node)
        console.print(figures(runs, limits(node, top)))
        code = node.stop()
        console.print(f"\nnode stopped with exit code {code}")
        return code
    finally:
        if node.process.poll() is None:
            node.kill()
        shutil.rmtree(top)


if __name__ == "__main__":
    sys.exit(main())
