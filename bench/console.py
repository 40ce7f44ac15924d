"""First page, memory and search rate of `kraft console`, against a node of its own.

    python -m bench.console --topics 10000 --search-mb 1000

The node and the console are processes. Pages are requested one after the other; the first one of each kind reads the
cluster, the second one may use what the first one read. Memory is the resident set of the console's process.
"""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kraft.client import Cluster
from kraft.client.producer import Producer
from kraft.client.refusals import check
from kraft.client.topics import create_topic
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft_native.batch.records import BatchBuilder

CREATED_AT_ONCE = 500
RECORD_BYTES = 1_000
BATCH_RECORDS = 500
NEEDLE = "customer-4711"
PAGES = ("/", "/topics", "/topics?page=50", "/topics?q=topic-00999", "/topics?order=problems", "/brokers", "/groups",
         "/why", "/metadata")


@contextmanager
def process(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a command of kraft; yields it with the first line that it prints."""
    with subprocess.Popen([sys.executable, "-m", "kraft", *arguments], stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONUNBUFFERED": "1"}) as running:
        assert running.stdout is not None
        try:
            yield running, running.stdout.readline()
        finally:
            running.send_signal(signal.SIGTERM)
            running.wait(60)


def create(cluster: Cluster, count: int) -> None:
    for first in range(0, count, CREATED_AT_ONCE):
        topics = [CreatableTopic(name=f"topic-{number:05}", num_partitions=1, replication_factor=1)
                  for number in range(first, min(first + CREATED_AT_ONCE, count))]
        answer = cluster.controller().send(CreateTopicsRequest(topics=topics, timeout_ms=60_000), CreateTopicsResponse)
        for each in answer.topics:
            check(each.name, each.error_code, each.error_message)


def fill(cluster: Cluster, megabytes: int, codec: str) -> int:
    """Write a topic; return the bytes of its records' values."""
    topic = f"searched-{codec}"
    create_topic(cluster, topic, 1)
    words = ("the quick brown fox jumps over a lazy dog " * (RECORD_BYTES // 40 + 1)).encode()
    builder = BatchBuilder(codec)
    for number in range(BATCH_RECORDS):
        builder.append((b"%08d " % number + words)[:RECORD_BYTES], key=b"key-%d" % number)
    batch, producer = builder.build(), Producer(cluster)
    batches = max(1, megabytes * 1_000_000 // (BATCH_RECORDS * RECORD_BYTES))
    for _ in range(batches):
        producer.send({(topic, 0): batch})
    return batches * BATCH_RECORDS * RECORD_BYTES


def fetched(address: str) -> tuple[float, str]:
    began = time.perf_counter()
    with urllib.request.urlopen(address, timeout=60) as answer:
        text = answer.read().decode()
    return time.perf_counter() - began, text


def resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1000  # type: ignore[index]


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def searched(address: str, topic: str) -> tuple[int, float, float]:
    """Run a search to its end; return stored bytes, the console's seconds, and the visitor's seconds."""
    path, total, seconds, began = f"/topics/{topic}/records?search=1&text={NEEDLE}", 0, 0.0, time.perf_counter()
    while path:
        _, text = fetched(address + path)
        total += int(re.search(r'data-bytes="(\d+)"', text)[1])  # type: ignore[index]
        seconds += float(re.search(r'data-seconds="([\d.e-]+)"', text)[1])  # type: ignore[index]
        following = re.search(r'data-next="([^"]+)"', text)
        path = following[1].replace("&amp;", "&") if following else ""
    return total, seconds, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--search-mb", type=int, default=1_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, \
            process("server", "start", "--data", directory, "--listen", "127.0.0.1:0", "--json") as (_, ready):
        bootstrap = json.loads(ready)["listeners"]["PLAINTEXT"]
        with Cluster(bootstrap, timeout=60) as cluster:
            create(cluster, options.topics)
            values = {codec: fill(cluster, options.search_mb, codec) for codec in ("none", "lz4")}
        arguments = ("--bootstrap", bootstrap, "--listen", "127.0.0.1:0", "--timeout", "30")
        with process("console", *arguments) as (console, line):
            address = line.split()[1].rstrip("/")
            print(f"{options.topics:,} topics; resident after the start: {resident_mb(console.pid):.1f} MB")
            for page in PAGES:
                before = cpu_seconds(console.pid)
                first, _ = fetched(address + page)
                cpu = cpu_seconds(console.pid) - before
                later = statistics.median(fetched(address + page)[0] for _ in range(5))
                print(f"{page:24} first {first * 1000:7.1f} ms ({cpu * 1000:.0f} ms of the console's processor time), "
                      f"then {later * 1000:7.1f} ms, resident {resident_mb(console.pid):.1f} MB", flush=True)
            for codec, size in values.items():
                before = cpu_seconds(console.pid)
                stored, seconds, wall = searched(address, f"searched-{codec}")
                cpu = cpu_seconds(console.pid) - before
                print(f"search, {codec}: {stored / 1e6:,.0f} MB stored, {size / 1e6:,.0f} MB of values: "
                      f"{stored / seconds / 1e6:,.0f} MB/s stored, {size / wall / 1e6:,.0f} MB/s of values by the "
                      f"visitor's clock, {size / cpu / 1e6:,.0f} MB for each second of the console's processor time",
                      flush=True)
            print(f"resident at the end: {resident_mb(console.pid):.1f} MB")


if __name__ == "__main__":
    main()
