"""Helpers of the tests of Produce and Fetch: a table of partitions with handlers, and a sink that keeps the replies."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.fetch_response import FetchResponse
from kraft.protocol.messages.fetch_response import PartitionData as FetchedPartition
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse
from kraft_native.facade.log import Log
from kraft_native.log.flusher import Flusher
from kraft_native.partition.cold_read import ColdReader
from kraft_native.partition.partition import Partition
from kraft_native.partition.purgatory import Purgatory
from kraft_native.partition.table import PartitionTable
from kraft_native.request.reply import Reply, ReplySink
from kraft_native.segment.config import LogConfig
from kraft_native.serve.fetch import FetchHandler
from kraft_native.serve.fetch_session import SessionCache
from kraft_native.serve.produce import ProduceHandler

NODE_ID = 1
FETCH_FLEXIBLE_FROM = 12
PRODUCE_FLEXIBLE_FROM = 9


class Sink(ReplySink):
    """Keep finished replies in the order of arrival."""

    def __init__(self) -> None:
        self.finished: list[Reply] = []

    def reply_finished(self, reply: Reply) -> int:
        self.finished.append(reply)
        return 0


def topic_id_of(name: str) -> bytes:
    return hashlib.md5(name.encode(), usedforsecurity=False).digest()


def body_of(reply: Reply) -> bytes:
    """Return the whole reply as it is sent, response header included."""
    assert reply.parts is not None, "not answered"
    return b"".join(bytes(part) for part in reply.parts)


class Node:
    """Partitions and handlers without a loop: the test sets the time."""

    def __init__(self, directory: Path, cold_reader: ColdReader | None = None, **fetch_settings: int) -> None:
        self.directory = directory
        self.purgatory = Purgatory()
        self.table = PartitionTable(self.purgatory)
        self.sessions = SessionCache()
        self.produce_handler = ProduceHandler(self.table)
        self.fetch_handler = FetchHandler(self.table, self.sessions, cold_reader, **fetch_settings)
        self.sink = Sink()
        self.flusher: Flusher | None = None
        self.correlation_id = 0

    def partition(self, topic: str = "t", index: int = 0, *, topic_id: bytes | None = None, leader: bool = True,
                  min_insync_replicas: int = 1, log_start: int = 0, **config: Any) -> Partition:
        """Add a new partition to the table, led by this node."""
        if config.get("durability") == "group-commit" and self.flusher is None:
            self.flusher = Flusher()
        log = Log(self.directory / f"{topic}-{index}", LogConfig(**config), flusher=self.flusher)
        if log_start:
            log.truncate_fully_and_start_at(log_start)
        partition = Partition(log, topic, topic_id or topic_id_of(topic), index,
                              min_insync_replicas=min_insync_replicas)
        self.table.add(partition)
        if leader:
            partition.become_leader(0, node_id=NODE_ID)
        return partition

    def close(self) -> None:
        for partition in self.table:
            partition.log.close()
        if self.flusher is not None:
            self.flusher.close()
        # A fixture's value outlives its test, and everything that it references would count as a leak.
        vars(self).clear()

    def reply(self, key: int, version: int, client_id: bytes | None = b"test") -> Reply:
        self.correlation_id += 1
        return Reply(self.sink, key, version, self.correlation_id, client_id)

    # --- Produce ----------------------------------------------------------------------------------------------------

    def produce_body(self, body: bytes, version: int, **reply: Any) -> Reply:
        made = self.reply(0, version, **reply)
        self.produce_handler.handle_bytes(made, body)
        return made

    def produce(self, records: bytes | None, *, version: int = 12, acks: int = 1, topic: str = "t", index: int = 0,
                timeout_ms: int = 1000, transactional_id: str | None = None, **reply: Any) -> Reply:
        """Send one batch to one partition."""
        request = ProduceRequest(
            transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms,
            topic_data=[TopicProduceData(
                name=topic if version < 13 else "", topic_id=UUID(bytes=topic_id_of(topic)),
                partition_data=[PartitionProduceData(index=index, records=records)])])
        return self.produce_body(request.encode(version), version, **reply)

    # --- Fetch ------------------------------------------------------------------------------------------------------

    def fetch_body(self, body: bytes, version: int, **reply: Any) -> Reply:
        made = self.reply(1, version, **reply)
        self.fetch_handler.handle_bytes(made, body)
        return made

    def fetch(self, *partitions: tuple[str, int, int] | tuple[str, FetchPartition], version: int = 16,
              max_wait_ms: int = 0, min_bytes: int = 1, max_bytes: int = 50 << 20, partition_max_bytes: int = 1 << 20,
              client_id: bytes = b"test", **fields: Any) -> Reply:
        """Fetch (topic, index, offset) each; a FetchPartition in place of the two numbers gives all fields."""
        topics: list[FetchTopic] = []
        for topic, *where in partitions:
            one = where[0]
            if not isinstance(one, FetchPartition):
                one = FetchPartition(partition=one, fetch_offset=where[1],  # type: ignore[misc]
                                     partition_max_bytes=partition_max_bytes)
            topic_id = UUID(bytes=topic_id_of(topic))
            topics.append(FetchTopic(topic=topic if version < 13 else "",
                                     topic_id=topic_id if version >= 13 else UUID(int=0), partitions=[one]))
        request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, topics=topics,
                               **fields)
        return self.fetch_body(request.encode(version), version, client_id=client_id)


@contextmanager
def serving(directory: Path, **settings: Any) -> Iterator[Node]:
    """Yield a node, and close its logs at the end."""
    node = Node(directory, **settings)
    try:
        yield node
    finally:
        node.close()


def produced(reply: Reply) -> PartitionProduceResponse:
    """Decode the one partition of a Produce reply."""
    response = produce_response(reply)
    [topic] = response.responses
    [partition] = topic.partition_responses
    return partition


def produce_response(reply: Reply) -> ProduceResponse:
    header = 5 if reply.api_version >= PRODUCE_FLEXIBLE_FROM else 4
    body = body_of(reply)
    assert int.from_bytes(body[:4], "big") == reply.correlation_id
    response = ProduceResponse.decode(body[header:], reply.api_version)
    assert response.encode(reply.api_version) == body[header:], "not as the schema has it"
    return response


def fetch_response(reply: Reply) -> FetchResponse:
    header = 5 if reply.api_version >= FETCH_FLEXIBLE_FROM else 4
    body = body_of(reply)
    assert int.from_bytes(body[:4], "big") == reply.correlation_id
    response = FetchResponse.decode(body[header:], reply.api_version)
    assert response.encode(reply.api_version) == body[header:], "not as the schema has it"
    return response


def fetched(reply: Reply) -> list[FetchedPartition]:
    """Decode all partitions of a Fetch reply, in order."""
    return [partition for topic in fetch_response(reply).responses for partition in topic.partitions]
