"""Produce requests that wait: for a flush, for in-sync replicas, until their time runs out, until another leader."""

import errno
import os
import select
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft_native.file.faults import fail_at
from kraft_native.log.flusher import Flusher
from kraft_native.partition.purgatory import Purgatory, now_ms
from kraft_native.partition.table import PartitionTable
from tests.native.logs import batch
from tests.native.serving import NODE_ID, Node, produce_response, produced, serving, topic_id_of

VERSIONS = range(3, 14)


class Led(NamedTuple):
    leader: int
    leader_epoch: int


def elsewhere(partitions: Mapping[int, Led]) -> tuple[int, str, Mapping[int, Led], tuple[()], int]:
    return 3, "t", partitions, (), NODE_ID


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with serving(tmp_path) as made:
        yield made


def wait_flushed(node: Node) -> None:
    """Block until the flusher did something, then notify the purgatory, as a loop would."""
    assert node.flusher is not None
    eventfd = node.flusher.eventfd
    readable, _, _ = select.select([eventfd], [], [], 10)
    assert readable, "no flush within 10 s"
    os.eventfd_read(eventfd)
    node.purgatory.flush_done()


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", [3, 9, 13])
def test_group_commit_answers_when_the_flush_covers_the_append(node: Node, acks: int, version: int) -> None:
    node.flusher = Flusher(linger_us=60_000_000, bytes_trigger=1 << 30)        # flushes on request only
    partition = node.partition(durability="group-commit")
    assert node.flusher.eventfd >= 0
    reply = node.produce(batch(2), acks=acks, version=version, timeout_ms=60_000)
    assert not reply.answered and node.purgatory.parked_count == 1 and partition.high_watermark == 0
    partition.log.flush()
    assert not reply.answered
    wait_flushed(node)
    assert produced(reply).error_code == ErrorCode.NONE
    assert partition.high_watermark == partition.log.durable_end_offset == 2
    assert node.purgatory.parked_count == 0


def test_a_failed_flush_is_reported_to_its_waiters(node: Node) -> None:
    node.partition(durability="group-commit")
    assert node.flusher is not None and node.flusher.eventfd >= 0
    with fail_at(1, error=errno.EIO, kinds=frozenset({"datasync"})):
        reply = node.produce(batch(), timeout_ms=60_000)
        if not reply.answered:
            wait_flushed(node)
    answer = produced(reply)
    assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1)


@pytest.mark.parametrize("version", VERSIONS)
def test_replicas_are_waited_for(node: Node, version: int) -> None:
    """A pending request is answered when all in-sync replicas have the records."""
    partition = node.partition(high_watermark="manual", leader=False, min_insync_replicas=2)
    partition.become_leader(3, node_id=NODE_ID, replicas=[1, 2, 3], isr=[1, 2])
    at_once = node.produce(batch(), acks=1, version=version)
    assert at_once.answered and partition.high_watermark == 0
    waiting = node.produce(batch(4), acks=-1, version=version)
    other = node.produce(batch(), acks=-1, version=version)
    node.purgatory.drain()
    assert not waiting.answered
    node.fetch(("t", 0, 5), replica_id=2, version=12)
    node.purgatory.drain()
    assert produced(waiting).base_offset == 1 and not other.answered
    assert partition.high_watermark == 5
    partition.set_isr([1])
    node.purgatory.drain()
    answer = produced(other)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, -1)


def test_time_runs_out(node: Node) -> None:
    partition = node.partition(high_watermark="manual", leader=False)
    partition.become_leader(0, node_id=NODE_ID, replicas=[1, 2], isr=[1, 2])
    before = now_ms()
    reply = node.produce(batch(), acks=-1, timeout_ms=300)
    deadline = node.purgatory.deadline_ms
    assert before + 300 <= deadline <= now_ms() + 300
    assert node.purgatory.expire(deadline - 1) == deadline and not reply.answered
    assert node.purgatory.expire(deadline) == -1
    answer = produced(reply)
    assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1, -1)


def test_another_leader_ends_the_wait(node: Node) -> None:
    partition = node.partition(high_watermark="manual", leader=False)
    partition.become_leader(0, node_id=NODE_ID, replicas=[1, 2], isr=[1, 2])
    reply = node.produce(batch(), acks=-1)
    partition.become_follower(1, 2)
    node.purgatory.drain()
    assert produced(reply).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("version", VERSIONS)
def test_the_leader_after_the_wait_is_returned(node: Node, version: int) -> None:
    """Several partitions in one request: one that this node still leads, one that another node led from the
    beginning, one that another node took over, and two that were removed."""
    for node_id in (2, 3, 4):
        node.table.set_endpoint(node_id, f"host-{node_id}", 9092)
    partitions = [node.partition(index=index, high_watermark="manual", leader=False) for index in range(5)]
    for partition in partitions:
        partition.become_leader(0, node_id=NODE_ID, replicas=[1, 2], isr=[1, 2])
    partitions[1].become_follower(5, 3)
    node.table.explain(lambda key, by_id: elsewhere({3: Led(4, 9)} if (key, by_id) == (b"t", False) else {}))
    data = [PartitionProduceData(index=index, records=batch()) for index in range(5)]
    reply = node.produce_body(ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[TopicProduceData(
        name="t" if version < 13 else "", topic_id=UUID(bytes=topic_id_of("t")), partition_data=data,
    )]).encode(version), version)
    partitions[2].become_follower(6, 2)
    node.table.remove("t", 3)
    node.table.remove("t", 4)               # its topic was deleted
    node.fetch(("t", 0, 1), replica_id=2, version=12)
    node.purgatory.drain()
    response = produce_response(reply)
    parts = response.responses[0].partition_responses
    assert [(part.error_code, part.base_offset) for part in parts] == [
        (ErrorCode.NONE, 0), *[(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)] * 4]
    answered = [(part.current_leader.leader_id, part.current_leader.leader_epoch) for part in parts]
    nobody = (-1, -1)
    assert answered == ([nobody, (3, 5), (2, 6), (4, 9), nobody] if version >= 10 else [nobody] * 5)
    hosts = [each.host for each in response.node_endpoints]
    assert hosts == (["host-2", "host-3", "host-4"] if version >= 10 else [])
    for partition in partitions[3:]:
        partition.log.close()


def test_too_many_that_wait_are_answered_as_if_late(tmp_path: Path) -> None:
    with serving(tmp_path) as node:
        node.purgatory = Purgatory(parked_max=2)
        node.table = PartitionTable(node.purgatory)
        node.produce_handler = type(node.produce_handler)(node.table)
        partition = node.partition(high_watermark="manual", leader=False)
        partition.become_leader(0, node_id=NODE_ID, replicas=[1, 2], isr=[1, 2])
        waiting = [node.produce(batch(), acks=-1) for _ in range(2)]
        assert produced(node.produce(batch(), acks=-1)).error_code == ErrorCode.REQUEST_TIMED_OUT
        assert not any(reply.answered for reply in waiting)


def test_callers_inside_the_node_wait_too(node: Node) -> None:
    partition = node.partition(high_watermark="manual", leader=False)
    partition.become_leader(0, node_id=NODE_ID, replicas=[1, 2], isr=[1, 2])
    codes: list[int] = []
    end = partition.append(batch(3)).last_offset + 1
    partition.call_when_committed(end, codes.append)
    assert codes == []
    partition.set_isr([1])
    node.purgatory.drain()
    assert codes == [ErrorCode.NONE]
    partition.call_when_committed(end, codes.append)
    assert codes == [ErrorCode.NONE] * 2
    partition.call_when_committed(end + 1, codes.append, timeout_ms=5)
    node.purgatory.expire(node.purgatory.deadline_ms)
    assert codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT]
