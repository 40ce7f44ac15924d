"""Share groups on our node beside Apache Kafka 4.3.1, in one run.

    python -m bench.macro.share [--quick] [--only TEXT] [--directory DIR]

Members of a share group fetch from one topic of records of 100 B, and acknowledge what they have in the next request.
The clients send plain requests, the same to both servers. Needs Java and Maven. The table is written as JSON to
bench/out, too.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

import click

from bench.commit.quorums import cpu_seconds
from bench.macro.figures import Figure, Pair, Row, chosen, comparison
from bench.macro.options import DIRECTORY, ONLY, OURS, QUICK
from bench.macro.servers import KafkaServer, KraftServer, Server
from bench.macro.topics import delete_topics
from kraft.client import Cluster
from kraft.client.connection import Connection
from kraft.client.producer import Producer
from kraft.client.topics import create_topic
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import incremental_alter_configs_request as alter
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kraft.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.metadata_response import MetadataResponse
from kraft.protocol.messages.share_fetch_request import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
)
from kraft.protocol.messages.share_fetch_response import ShareFetchResponse
from kraft.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kraft.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from kraft_native.batch.records import BatchBuilder
from tests.peer.kafka import missing

VALUE: Final = bytes(100)
BATCH_RECORDS: Final = 500
GROUP_RESOURCE: Final = 32
ACCEPT: Final = 1
IDLE_SECONDS_MAX: Final = 30.0
JOIN_SECONDS_MAX: Final = 30.0
HEARTBEAT_SECONDS: Final = 0.1
LOADING: Final = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE,
                  ErrorCode.NOT_COORDINATOR)


def connect(server: Server) -> Connection:
    host, _, port = server.bootstrap.rpartition(":")
    return Connection(host, int(port))


class Members:
    """A share group with one member for each partition of a new topic, which holds `records` records in each."""

    def __init__(self, server: Server, count: int, records: int) -> None:
        self.server = server
        self.topic = f"share-{uuid.uuid4().hex[:8]}"
        self.records = records
        with Cluster(server.bootstrap) as cluster:
            create_topic(cluster, self.topic, count)
            builder = BatchBuilder("none")
            for _ in range(BATCH_RECORDS):
                builder.append(VALUE, None, int(time.time() * 1000))
            batch = builder.build()
            producer = Producer(cluster)
            for partition in range(count):
                for _ in range(records // BATCH_RECORDS):
                    producer.send({(self.topic, partition): batch})
        self.connections = [connect(server) for _ in range(count)]
        first = self.connections[0]
        first.send(alter.IncrementalAlterConfigsRequest(resources=[alter.AlterConfigsResource(
            resource_type=GROUP_RESOURCE, resource_name=self.topic, configs=[alter.AlterableConfig(
                name="share.auto.offset.reset", config_operation=0, value="earliest")])]),
            IncrementalAlterConfigsResponse)
        found = first.send(MetadataRequest(topics=[MetadataRequestTopic(name=self.topic)]), MetadataResponse)
        self.topic_id = found.topics[0].topic_id
        self._join(count)

    def _join(self, count: int) -> None:
        """Join with one member, until it has all partitions: then the coordinator has created their states."""
        self.connections[0].send(FindCoordinatorRequest(coordinator_keys=[self.topic]), FindCoordinatorResponse)
        member_epoch, deadline, assigned = 0, time.monotonic() + JOIN_SECONDS_MAX, 0
        while assigned < count:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.server.name}: {assigned} of {count} partitions are assigned")
            response = self.connections[0].send(ShareGroupHeartbeatRequest(
                group_id=self.topic, member_id=str(uuid.uuid5(uuid.NAMESPACE_OID, self.topic)),
                member_epoch=member_epoch, subscribed_topic_names=[self.topic]), ShareGroupHeartbeatResponse)
            if response.error_code not in (ErrorCode.NONE, *LOADING):
                raise RuntimeError(f"{self.server.name}: {response.error_message}")
            member_epoch = response.member_epoch
            if response.assignment is not None:
                assigned = sum(len(topic.partitions) for topic in response.assignment.topic_partitions)
            time.sleep(HEARTBEAT_SECONDS)

    def run(self) -> None:
        """Have every record acknowledged."""
        with ThreadPoolExecutor(len(self.connections)) as threads:
            for each in [threads.submit(self._loop, number) for number in range(len(self.connections))]:
                each.result()

    def _loop(self, number: int) -> None:
        connection, acks, done, epoch = self.connections[number], list[AcknowledgementBatch](), 0, 0
        last = time.monotonic()
        while done < self.records:
            response = connection.send(ShareFetchRequest(
                group_id=self.topic, member_id=f"member-{number}", share_session_epoch=epoch, max_wait_ms=500,
                min_bytes=1, max_bytes=1 << 20, max_records=BATCH_RECORDS, batch_size=BATCH_RECORDS,
                topics=[FetchTopic(topic_id=self.topic_id, partitions=[FetchPartition(
                    partition_index=number, acknowledgement_batches=acks)])]), ShareFetchResponse)
            if response.error_code:
                raise RuntimeError(f"{self.server.name}: error {response.error_code}")
            epoch += 1
            done += sum(each.last_offset - each.first_offset + 1 for each in acks)
            parts = [part for topic in response.responses for part in topic.partitions]
            if any(part.error_code or part.acknowledge_error_code for part in parts):
                raise RuntimeError(f"{self.server.name}: {parts}")
            acks = [AcknowledgementBatch(
                first_offset=each.first_offset, last_offset=each.last_offset, acknowledge_types=[ACCEPT])
                for part in parts for each in part.acquired_records]
            if acks:
                last = time.monotonic()
            elif time.monotonic() - last > IDLE_SECONDS_MAX:
                raise RuntimeError(f"{self.server.name}: nothing is delivered after {done:,} records")

    def close(self) -> None:
        for each in self.connections:
            each.close()
        delete_topics(self.server, [self.topic])


def rate_rows(pair: Pair, members: int, aim: float | None) -> list[Figure]:
    """Measure the acknowledged records of that many members at once."""
    row = f"share group of {members} members, records of {len(VALUE)} B"
    records = max(BATCH_RECORDS, int(400_000 * pair.bytes_scale) // BATCH_RECORDS * BATCH_RECORDS)

    def run(server: Server) -> tuple[float, ...]:
        warm = Members(server, members, BATCH_RECORDS)
        warm.run()
        warm.close()
        group = Members(server, members, records)
        try:
            before, begun = cpu_seconds(server.pids), time.monotonic()
            group.run()
            elapsed, used = time.monotonic() - begun, cpu_seconds(server.pids) - before
        finally:
            group.close()
        return members * records / elapsed, used / (members * records) * 1e6

    return pair.alternate(run, (Figure(row, "acknowledged", "per s", aim, "more"),
                                Figure(row, "server CPU", "us each", 0.5)))


def loads() -> Iterator[Row]:
    """Yield the rows of share groups, by name."""
    yield "members, 1", partial(rate_rows, members=1, aim=None)
    yield "members, 4", partial(rate_rows, members=4, aim=2.0)


@click.command()
@QUICK
@OURS
@ONLY
@DIRECTORY
def main(quick: bool, ours: bool, only: tuple[str, ...], directory: Path) -> None:
    """Measure share groups on our node beside Apache Kafka."""
    if not ours and (reason := missing()) is not None:
        raise click.ClickException(f"needs Apache Kafka as a peer, or --ours: {reason}")
    with comparison("share", directory, KraftServer, None if ours else KafkaServer, quick=quick) as run:
        for server in run.pair.servers:
            server.start()
        if not (quick or ours):
            run.warm(chosen(loads(), only))
        run.measure(chosen(loads(), only))


if __name__ == "__main__":
    main()
