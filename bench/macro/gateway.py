"""Thousands of subscribers of one gateway that lose their connections at random: nothing is lost and nothing repeated.

    python -m bench.macro.gateway [--subscribers 5000] [--records 200] [--clients 2]

A node and a gateway run in processes of their own, and so do the clients, which share the subscribers. Each subscriber
breaks its connection after a random number of events, and continues with the last id that it has received. A producer
writes at a fixed rate meanwhile. At the end each subscriber must have each record once, in the order of its partition.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import click
import uvloop

from bench.machine import OUT, describe
from bench.table import number

TOPIC = "events"
PARTITIONS = 2
BREAK_EVENTS = 60
"""A connection is broken after 1 to so many events."""
SECONDS_MAX = 600.0
CONNECTING_MAX = 200
LINE_BYTES_MAX = 1 << 20


class Totals(NamedTuple):
    """Findings of the subscribers of one process."""

    events: int
    lost: int
    repeated: int
    disordered: int
    connections: int
    connect_ms: list[float]
    late_ms: list[float]


class Subscriber:
    """One subscriber: what it has, and where it continues."""

    def __init__(self, url: tuple[str, int], seed: int, records: int, gate: asyncio.Semaphore) -> None:
        self.url = url
        self.random = random.Random(seed)
        self.left = records
        self.gate = gate
        self.next = [0] * PARTITIONS
        self.last = ",".join(f"{partition}:0" for partition in range(PARTITIONS))
        self.events = self.lost = self.repeated = self.connections = 0
        self.connect_ms: list[float] = []
        self.late_ms: list[float] = []

    async def run(self) -> None:
        while self.left > 0:
            await self.connect(self.random.randint(1, BREAK_EVENTS))

    async def connect(self, events: int) -> None:
        """Receive so many events, and break the connection."""
        async with self.gate:
            began = time.perf_counter()
            reader, writer = await asyncio.open_connection(*self.url, limit=LINE_BYTES_MAX)
            writer.write(f"GET /topics/{TOPIC}/events HTTP/1.1\r\nHost: gateway\r\nLast-Event-ID: {self.last}\r\n\r\n"
                         .encode())
            status = await reader.readline()
            assert b" 200 " in status, status
            self.connect_ms.append((time.perf_counter() - began) * 1e3)
        self.connections += 1
        try:
            await self.receive(reader, events)
        finally:
            writer.transport.abort()

    async def receive(self, reader: asyncio.StreamReader, events: int) -> None:
        seen, due = "", False
        while events and self.left:
            line = await reader.readline()
            if not line:
                return
            if line.startswith(b"id: "):
                seen = line[4:].decode().strip()
            elif line.startswith(b"data: "):
                self.note(json.loads(line[6:]))
                due = True
            elif due and line == b"\n":     # the event is complete, so its id counts
                self.last, due = seen, False
                events -= 1

    def note(self, record: dict[str, object]) -> None:
        partition, offset = record["partition"], record["offset"]
        assert isinstance(partition, int)
        assert isinstance(offset, int)
        self.events += 1
        if offset < self.next[partition]:
            self.repeated += 1
            return
        self.lost += offset - self.next[partition]
        self.left -= 1 + offset - self.next[partition]
        self.next[partition] = offset + 1
        if self.events % 16 == 0:
            sent = record["timestamp_ms"]
            assert isinstance(sent, int)
            self.late_ms.append(time.time() * 1e3 - sent)


def client(pipe: Connection, url: tuple[str, int], seeds: range, records: int) -> None:
    """Run some subscribers in this process, and send their totals."""
    async def main() -> Totals:
        gate = asyncio.Semaphore(CONNECTING_MAX)
        subscribers = [Subscriber(url, seed, records, gate) for seed in seeds]
        async with asyncio.timeout(SECONDS_MAX), asyncio.TaskGroup() as group:
            for each in subscribers:
                group.create_task(each.run())
        return Totals(
            sum(each.events for each in subscribers), sum(each.lost for each in subscribers),
            sum(each.repeated for each in subscribers), sum(sum(each.next) != records for each in subscribers),
            sum(each.connections for each in subscribers), [ms for each in subscribers for ms in each.connect_ms],
            [ms for each in subscribers for ms in each.late_ms])

    raise_files()
    pipe.send(uvloop.run(main()))


def raise_files() -> None:
    """Let this process and its children have as many connections as the system allows."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def started(*arguments: str) -> tuple[subprocess.Popen[str], dict[str, object]]:
    """Start a command of kraft; return its process and its line of JSON."""
    process = subprocess.Popen([sys.executable, "-m", "kraft", *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def produce(bootstrap: str, records: int, per_second: float) -> None:
    """Write records at a rate, alternately to the partitions."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})
    for each in range(records):
        producer.produce(TOPIC, json.dumps({"number": each}), partition=each % PARTITIONS)
        producer.poll(0)
        time.sleep(1 / per_second)
    producer.flush(60)


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def rss_mib(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0]) / 1024


@click.command()
@click.option("--subscribers", default=5_000, show_default=True)
@click.option("--records", default=200, show_default=True)
@click.option("--per-second", default=10.0, show_default=True, help="Records that the producer writes.")
@click.option("--clients", default=2, show_default=True, help="Processes that share the subscribers.")
def main(subscribers: int, records: int, per_second: float, clients: int) -> None:
    raise_files()
    records -= records % PARTITIONS
    with tempfile.TemporaryDirectory(prefix="kraft-gateway-") as data:
        node, ready = started("server", "start", "--json", "--data", data, "--listen", "127.0.0.1:0")
        bootstrap = str(dict(ready["listeners"])["PLAINTEXT"]).rpartition("//")[2]  # type: ignore[call-overload]
        subprocess.run([sys.executable, "-m", "kraft", "topics", "create", TOPIC, "--partitions", str(PARTITIONS),
                        "--bootstrap", bootstrap], check=True)
        gateway, bound = started("gateway", "--json", "--listen", "127.0.0.1:0", "--bootstrap", bootstrap, *(
            f"--limit={name}={value}" for name, value in (
                ("subscribers", subscribers * 2), ("connections_per_address", subscribers * 4),
                ("requests_per_second", 1_000_000))))
        try:
            measure(bootstrap, str(bound["url"]), gateway.pid, (subscribers, records, per_second, clients))
        finally:
            for process in (gateway, node):
                process.send_signal(signal.SIGTERM)
                process.wait(60)


def measure(bootstrap: str, url: str, gateway: int, load: tuple[int, int, float, int]) -> None:
    subscribers, records, per_second, clients = load
    host, _, port = url.rpartition("//")[2].rpartition(":")
    pipes, processes = [], []
    context = multiprocessing.get_context("spawn")
    began = time.monotonic()
    for index in range(clients):
        ours, theirs = context.Pipe()
        seeds = range(index * subscribers // clients, (index + 1) * subscribers // clients)
        process = context.Process(target=client, args=(theirs, (host, int(port)), seeds, records))
        process.start()
        pipes.append(ours)
        processes.append(process)
    produce(bootstrap, records, per_second)
    found = [pipe.recv() if pipe.poll(SECONDS_MAX) else None for pipe in pipes]
    seconds = time.monotonic() - began
    for process in processes:
        process.kill()
    totals = [each for each in found if each is not None]
    assert len(totals) == clients, "a process of clients has ended early"
    connect = [ms for each in totals for ms in each.connect_ms]
    late = [ms for each in totals for ms in each.late_ms]
    row = {
        "machine": describe(), "subscribers": subscribers, "records": records,
        "events": sum(each.events for each in totals), "lost": sum(each.lost for each in totals),
        "repeated": sum(each.repeated for each in totals), "incomplete": sum(each.disordered for each in totals),
        "connections": sum(each.connections for each in totals), "seconds": round(seconds, 1),
        "connect_ms_p50": round(percentile(connect, 0.5), 1), "connect_ms_p99": round(percentile(connect, 0.99), 1),
        "late_ms_p50": round(percentile(late, 0.5), 1), "late_ms_p99": round(percentile(late, 0.99), 1),
        "gateway_mib": round(rss_mib(gateway), 1)}
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "gateway.json").write_text(json.dumps(row))
    for name, value in row.items():
        click.echo(f"{name:<16}{value if isinstance(value, str) else number(float(value))}")
    if row["lost"] or row["repeated"] or row["incomplete"]:
        raise SystemExit("records were lost or repeated")


if __name__ == "__main__":
    main()
