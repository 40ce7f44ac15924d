"""Three nodes restarted in turn under load, replicas moved under load, and ten thousand partitions on three nodes.

First ours, then those of Apache Kafka 4.3.1; replication 3, min.insync.replicas 2; moved partitions have two replicas.

    python -m bench.macro.operations [--quick] [--ours] [--only TEXT] [--directory DIR]

Each row has clusters of its own with their defaults, one after the other; nothing else runs meanwhile. The table is
written as JSON to bench/out, too.
"""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import click

from bench.macro.clusters import NODES, KafkaCluster, KraftCluster
from bench.macro.figures import Figure, chosen, reported
from bench.macro.options import DIRECTORY, ONLY, OURS
from bench.macro.servers import resident_megabytes
from bench.macro.topics import create_topics
from kraft.client import Cluster
from kraft.client.quorum import QuorumClient
from kraft.client.topics import create_topic
from kraft.load.measure import fill
from kraft.load.workload import Workload
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from kraft.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from kraft.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from kraft.protocol.messages.metadata_response import MetadataResponseTopic
from kraft_native.base.errors import KraftError
from tests.integration.failover import Stream
from tests.peer.kafka import missing

AnyCluster = KraftCluster | KafkaCluster
Make = Callable[[Path, Mapping[str, str]], AnyCluster]

GIGABYTE: Final = 1e9
MOVED_BYTES: Final = 1_000_000_000
PARTITIONS: Final = 10_000
TOPICS: Final = 100
SETTLE_SECONDS: Final = 2.0
WAIT_SECONDS: Final = 300.0
POLL_SECONDS: Final = 0.002
CHANGES: Final = 15


@contextmanager
def running(make: Make, home: Path) -> Iterator[AnyCluster]:
    """Start a new cluster with its defaults; stop it at the end."""
    cluster = make(home / uuid.uuid4().hex[:8], {})
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while not condition():
        if time.monotonic() > until:
            raise RuntimeError(f"{what}: not in {WAIT_SECONDS:g} s")
        time.sleep(POLL_SECONDS)


def topics_at(address: str, names: list[str]) -> list[MetadataResponseTopic]:
    """Return the topics as one node describes them; none while it is offline."""
    try:
        with Cluster(address, timeout=10.0) as cluster:
            return list(cluster.metadata(names).topics)
    except (KraftError, OSError):
        return []


def in_sync(address: str, name: str) -> bool:
    return any(not topic.error_code and all(len(each.isr_nodes) == NODES for each in topic.partitions)
               for topic in topics_at(address, [name]))


# --- restarts

def restart_gaps(make: Make, home: Path) -> tuple[float, ...]:
    """Return the longest gap of an idempotent producer with acks=all and librdkafka's defaults, and its errors."""
    with running(make, home) as cluster:
        name = "restarts"
        with Cluster(cluster.bootstrap) as client:
            create_topic(client, name, NODES)
        stream = Stream(cluster.bootstrap, name, NODES)
        stream.start()
        await_flow(cluster, stream)
        gaps = []
        for node_id in cluster.homes:
            began = time.monotonic()
            cluster.restart_node(node_id)
            await_flow(cluster, stream)
            gaps.append(stream.longest_gap(began))
        stream.end()
        return max(gaps), float(len(stream.errors) + stream.unfinished)


def await_flow(cluster: AnyCluster, stream: Stream) -> None:
    """Wait until all replicas are in sync according to all nodes, and records flow; and then a little longer."""
    wait_for(lambda: all(in_sync(address, stream.topic) for address in cluster.addresses), "in sync")
    now = time.monotonic()
    wait_for(lambda: stream.flows_since(now), "acknowledged")
    time.sleep(SETTLE_SECONDS)


# --- moving replicas

def move(make: Make, home: Path, data_bytes: int) -> tuple[float, ...]:
    """Move one replica of each of three partitions with two replicas and that many bytes together, while a producer
    runs. Return the seconds until the controller lists no move any more, and the producer's longest gap and errors."""
    with running(make, home) as cluster, Cluster(cluster.bootstrap) as client:
        name = "moved"
        create_topic(client, name, NODES, 2)
        fill(Workload("produce", NODES, 2, record_bytes=1024, batch_bytes=1_000_000, acks=-1, topic=name), client,
             data_bytes)
        stream = Stream(cluster.bootstrap, name, NODES)
        stream.start()
        started = time.monotonic()
        wait_for(lambda: stream.flows_since(started), "acknowledged")
        time.sleep(SETTLE_SECONDS)
        reassigned = ReassignableTopic(name=name, partitions=[
            ReassignablePartition(partition_index=each.partition_index,
                                  replicas=[node_id % NODES + 1 for node_id in each.replica_nodes])
            for each in client.metadata([name]).topics[0].partitions])
        began = time.monotonic()
        answer = client.controller().send(AlterPartitionReassignmentsRequest(topics=[reassigned], timeout_ms=30_000),
                                          AlterPartitionReassignmentsResponse)
        if answer.error_code or any(each.error_code for each in answer.responses[0].partitions):
            raise RuntimeError(f"{cluster.name}: the moves were refused: {answer}")
        wait_for(lambda: not client.controller().send(ListPartitionReassignmentsRequest(topics=None, timeout_ms=30_000),
                                                      ListPartitionReassignmentsResponse).topics, "moved")
        seconds = time.monotonic() - began
        time.sleep(SETTLE_SECONDS)
        stream.end()
        return seconds, stream.longest_gap(began), float(len(stream.errors) + stream.unfinished)


# --- many partitions

def many_partitions(make: Make, home: Path, count: int) -> tuple[float, ...]:
    """Return the seconds to create them, the milliseconds from a change until all three nodes report it, the seconds
    until a killed broker's partitions have other leaders, and the memory."""
    with running(make, home) as cluster:
        names = [f"many-{number}" for number in range(TOPICS)]
        began = time.monotonic()
        with Cluster(cluster.bootstrap) as client:
            for name in names:
                create_topics(client, [name], count // TOPICS)
        wait_for(lambda: all(in_sync(address, name) for name in (names[0], names[-1])
                             for address in cluster.addresses), "in sync")
        created = time.monotonic() - began
        time.sleep(SETTLE_SECONDS)
        changes = [change(cluster) for _ in range(CHANGES)]
        memory = resident_megabytes(cluster.pids, file_pages=False)
        return created, statistics.median(changes) * 1000, fail_over(cluster, names), memory


def change(cluster: AnyCluster) -> float:
    """Create one more topic; return the seconds until every node reports its leader."""
    name = f"change-{uuid.uuid4().hex[:8]}"
    clients = [Cluster(address) for address in cluster.addresses]
    try:
        for each in clients:
            each.metadata([])          # connected
        began = time.monotonic()
        create_topics(clients[0], [name])
        left = clients
        while left:
            left = [each for each in left if each.metadata([name]).topics[0].error_code]
            if time.monotonic() - began > WAIT_SECONDS:
                raise RuntimeError(f"{name}: not announced in {WAIT_SECONDS:g} s")
        return time.monotonic() - began
    finally:
        for each in clients:
            each.close()


def fail_over(cluster: AnyCluster, names: list[str]) -> float:
    """Kill a broker that is not the active controller; return the seconds until another one reports leaders for all."""
    with Cluster(cluster.bootstrap) as client:
        active = QuorumClient(client).describe().leader
    victim = next(node_id for node_id in cluster.homes if node_id != active)
    witness = cluster.addresses[next(i for i, node_id in enumerate(cluster.homes) if node_id not in (active, victim))]
    began = time.monotonic()
    cluster.kill_node(victim)

    def is_led() -> bool:
        found = topics_at(witness, names)
        return len(found) == len(names) and all(
            each.leader_id not in (victim, -1) for topic in found for each in topic.partitions)

    wait_for(is_led, "led by others")
    return time.monotonic() - began


# --- the run

def rows(home: Path, count: int, data_bytes: int, *, with_peer: bool) -> Iterator[
        tuple[str, Callable[[], list[Figure]]]]:
    """Yield the rows by name: ours first, then the peer's."""
    def beside(action: Callable[[Make, Path], tuple[float, ...]], figures: tuple[Figure, ...]) -> list[Figure]:
        for figure, value in zip(figures, action(KraftCluster, home), strict=True):
            figure.ours.append(value)
        if with_peer:
            for figure, value in zip(figures, action(KafkaCluster, home), strict=True):
                figure.peers.append(value)
        return list(figures)

    row = "rolling restart under load"
    yield row, partial(beside, restart_gaps, (Figure(row, "longest gap", "s", 0.5),
                                              Figure(row, "errors", "", 0.0, absolute=True)))
    row = f"{data_bytes / GIGABYTE:g} GB moved under load"
    yield row, partial(beside, partial(move, data_bytes=data_bytes), (
        Figure(row, "until all are moved", "s", None), Figure(row, "longest gap", "s", None),
        Figure(row, "errors", "", 0.0, absolute=True)))
    row = f"{count:,} partitions"
    yield row, partial(beside, partial(many_partitions, count=count), (
        Figure(row, "created and in sync", "s", None), Figure(row, "a change is known to all", "ms", 0.5),
        Figure(row, "a broker's are led by others", "s", 0.5), Figure(row, "memory of all", "MB", 0.5)))


@click.command()
@click.option("--quick", is_flag=True, help="Fewer partitions: to see that everything runs.")
@OURS
@ONLY
@click.option("--partitions", default=PARTITIONS, show_default=True)
@DIRECTORY
def main(quick: bool, ours: bool, only: tuple[str, ...], partitions: int, directory: Path) -> None:
    """Measure restarts, and many partitions."""
    if not ours and (reason := missing()) is not None:
        raise click.ClickException(f"needs Apache Kafka as a peer, or --ours: {reason}")
    count = min(partitions, 10 * TOPICS) if quick else partitions
    with reported("operations", directory, quick=quick) as (_, home, report):
        for _, measure in chosen(rows(home, count, MOVED_BYTES // (10 if quick else 1), with_peer=not ours), only):
            report.add(measure())


if __name__ == "__main__":
    main()
