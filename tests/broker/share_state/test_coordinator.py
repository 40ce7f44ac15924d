"""Requests to the share coordinator: every check, every error, and known bugs of Kafka."""

from typing import Any

import pytest

from kraft.broker.share_state.batches import StateBatch
from kraft.broker.share_state.state import ShareKey, Snapshot, Update
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages import read_share_group_state_request as reads
from tests.broker.node import START_MS
from tests.broker.share_state.share_node import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    CLICKS,
    GROUP,
    KEY,
    ORDERS,
    UNKNOWN_TOPIC,
    ShareNode,
    code_of,
    delete,
    initialize,
    read,
    state_read,
    summarize,
    write,
)

OK = (ErrorCode.NONE, None)


def error(node: ShareNode, request: Message, version: int | None = None) -> ErrorCode:
    return code_of(node.call(request, version))[0]


def summary(node: ShareNode, key: ShareKey = KEY, version: int = 1) -> tuple[int, int, int, int]:
    """State epoch, leader epoch, start offset and count."""
    response = node.call(summarize(key), version)
    assert code_of(response) == OK
    each = response.results[0].partitions[0]
    return each.state_epoch, each.leader_epoch, each.start_offset, each.delivery_complete_count


def initialized(**config: Any) -> ShareNode:
    node = ShareNode(**config)
    assert code_of(node.call(initialize())) == OK
    return node


def test_the_life_of_a_share_partition() -> None:
    node = ShareNode()
    assert summary(node) == (0, 0, -1, -1)
    assert code_of(node.call(initialize(state_epoch=2))) == OK
    assert summary(node) == (2, 0, -1, -1)
    assert state_read(node, leader_epoch=5) == (2, -1, [])
    assert summary(node) == (2, 5, -1, -1)
    assert code_of(node.call(write((0, 4, AVAILABLE, 1), (5, 9, ACKNOWLEDGED, 1), state_epoch=2, leader_epoch=5,
                                   count=5))) == OK
    assert code_of(node.call(write((3, 6, ARCHIVED, 2), state_epoch=2, leader_epoch=5, start_offset=2, count=6))) == OK
    expected = (2, 2, [(2, 2, AVAILABLE, 1), (3, 6, ARCHIVED, 2), (7, 9, ACKNOWLEDGED, 1)])
    assert state_read(node, leader_epoch=5) == expected
    assert summary(node) == (2, 5, 2, 6)
    assert summary(node, version=0) == (2, 5, 2, -1)
    node.fail_over()
    assert state_read(node, leader_epoch=5) == expected
    assert code_of(node.call(delete())) == OK
    assert summary(node) == (0, 0, -1, -1)
    assert code_of(node.call(delete())) == OK
    node.fail_over()
    assert error(node, read()) == ErrorCode.INVALID_REQUEST
    assert [type(each) for each in node.records()] == [Snapshot, Update, Update, Update, type(None)]


def test_what_is_not_initialized_is_neither_read_nor_written() -> None:
    node = ShareNode()
    assert code_of(node.call(read())) == (
        ErrorCode.INVALID_REQUEST, "Read operation on uninitialized share partition not allowed.")
    assert code_of(node.call(write())) == (
        ErrorCode.INVALID_REQUEST, "Write operation on uninitialized share partition not allowed.")
    assert node.records() == []


@pytest.mark.parametrize("make", [initialize, read, write, summarize, delete])
def test_partitions_that_do_not_exist(make: Any) -> None:
    node = ShareNode(2)
    for key in (ShareKey(GROUP, ORDERS, -1), ShareKey(GROUP, ORDERS, 8), ShareKey(GROUP, UNKNOWN_TOPIC, 0)):
        name = "orders" if key.topic_id == ORDERS else "lost"
        node.topics.change(name, key.topic_id, 100)
        if key.partition >= 0:
            node.call(initialize(key=key))
        node.topics.change(name, key.topic_id if name == "orders" else None, 8)
        code, message = code_of(node.call(make(key=key)))
        if key.partition < 0:
            assert (code, message) == (ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")
        else:
            assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_requests_without_a_group_or_partitions_get_an_empty_answer() -> None:
    node = initialized()
    assert node.call(reads.ReadShareGroupStateRequest(group_id=GROUP)).results == []
    assert node.call(read(key=ShareKey("", ORDERS, 0))).results == []
    assert node.call(reads.ReadShareGroupStateRequest(group_id=GROUP, topics=[
        reads.ReadStateData(topic_id=ORDERS, partitions=[reads.PartitionData(partition=0)]),
        reads.ReadStateData(topic_id=CLICKS)])).results == []


def test_a_lower_leader_epoch_is_fenced() -> None:
    node = initialized()
    state_read(node, leader_epoch=3)
    assert error(node, write(leader_epoch=2)) == ErrorCode.FENCED_LEADER_EPOCH
    assert error(node, read(leader_epoch=2)) == ErrorCode.FENCED_LEADER_EPOCH
    node.fail_over()
    assert error(node, write(leader_epoch=2)) == ErrorCode.FENCED_LEADER_EPOCH
    for leader_epoch in (-1, 3, 4):
        assert error(node, write(leader_epoch=leader_epoch)) == ErrorCode.NONE
    assert summary(node)[1] == 3, "a write does not change the leader"


def test_a_read_of_a_new_leader_is_answered_when_its_epoch_is_committed() -> None:
    """The previous leader is fenced before the new one delivers a record."""
    node = initialized()
    node.lag = True
    pending = node.send(read(leader_epoch=4))
    assert not pending.answered
    assert node.send(write(leader_epoch=3)).response is None
    node.commit()
    assert code_of(pending.response) == OK
    before = len(node.records())
    node.lag = False
    state_read(node, leader_epoch=4)
    state_read(node, leader_epoch=-1)
    assert len(node.records()) == before, "the same leader reads without a record"


def test_a_lower_state_epoch_is_fenced() -> None:
    node = ShareNode()
    node.call(initialize(state_epoch=3))
    assert error(node, initialize(state_epoch=2)) == ErrorCode.FENCED_STATE_EPOCH
    assert error(node, write(state_epoch=2)) == ErrorCode.FENCED_STATE_EPOCH
    assert error(node, initialize(state_epoch=-1)) == ErrorCode.INVALID_REQUEST
    for state_epoch in (-1, 3, 4):
        assert error(node, write(state_epoch=state_epoch)) == ErrorCode.NONE
    assert summary(node)[0] == 3, "a write does not begin an epoch"


def test_an_initialization_that_arrives_twice_changes_nothing() -> None:
    """KAFKA-19204: it is not refused. Nor does it drop what was written meanwhile."""
    node = initialized()
    state_read(node, leader_epoch=2)
    node.call(write((0, 5, ACKNOWLEDGED, 1), leader_epoch=2, start_offset=0))
    before = state_read(node, leader_epoch=2)
    for start_offset in (-1, 0):
        assert code_of(node.call(initialize(start_offset=start_offset))) == OK
    assert state_read(node, leader_epoch=2) == before
    assert error(node, read(leader_epoch=1)) == ErrorCode.FENCED_LEADER_EPOCH


def test_a_higher_state_epoch_begins_again_from_any_offset() -> None:
    node = initialized()
    state_read(node, leader_epoch=7)
    node.call(write((10, 20, ACKNOWLEDGED, 1), leader_epoch=7, start_offset=10, count=3))
    assert code_of(node.call(initialize(state_epoch=2, start_offset=4))) == OK
    assert summary(node) == (2, 0, 4, 0)
    assert error(node, write(leader_epoch=7, state_epoch=1)) == ErrorCode.FENCED_STATE_EPOCH
    assert state_read(node, leader_epoch=7) == (2, 4, [])
    [*_, snapshot, _] = node.records()
    assert isinstance(snapshot, Snapshot) and snapshot.snapshot_epoch == 1


def test_updates_keep_the_state_epoch() -> None:
    """KAFKA-19337: an update has no state epoch. That of its snapshot remains, also after a load and in the next
    snapshot."""
    node = initialized(updates_per_snapshot=2)
    node.call(initialize(state_epoch=9))
    for offset in range(5):
        node.call(write((offset, offset, ACKNOWLEDGED, 1), state_epoch=-1))
        node.fail_over()
        assert summary(node)[0] == 9
    assert [each.state_epoch for each in node.records() if isinstance(each, Snapshot)] == [1, 9, 9]


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_a_snapshot_follows_the_configured_number_of_updates(limit: int) -> None:
    """PR 21426: neither one more nor one less, also when the coordinator changes."""
    node = initialized(updates_per_snapshot=limit)
    for offset in range(2 * (limit + 1)):
        node.call(write((offset, offset, ACKNOWLEDGED, 1)))
        if offset % 2:
            node.fail_over()
    kinds = [type(each) for each in node.records()]
    assert kinds == [Snapshot, *([*[Update] * limit, Snapshot] * 2)]
    assert [each.snapshot_epoch for each in node.records() if each is not None][-1] == 2
    last = node.records()[-1]
    assert isinstance(last, Snapshot)
    assert last.batches == (StateBatch(0, 2 * limit + 1, ACKNOWLEDGED, 1),)
    assert last.write_ms == START_MS


def test_the_start_offset_and_its_count_never_go_back() -> None:
    """A write that arrives late adds its batches, and nothing else."""
    node = initialized()
    node.call(write((10, 12, AVAILABLE, 1), start_offset=10, count=4))
    node.call(write((5, 11, ACKNOWLEDGED, 2), start_offset=5, count=9))
    assert state_read(node) == (1, 10, [(10, 11, ACKNOWLEDGED, 2), (12, 12, AVAILABLE, 1)])
    assert summary(node)[2:] == (10, 4)
    node.call(write(start_offset=10, count=3))
    assert summary(node)[2:] == (10, 4)
    node.call(write(start_offset=-1, count=8))
    assert summary(node)[2:] == (10, 4)
    node.call(write(start_offset=11, count=1))
    assert summary(node)[2:] == (11, 1)


def test_each_partition_has_its_own_result_in_the_order_of_the_request() -> None:
    node = ShareNode(5)
    for index in (0, 2):
        node.call(initialize(key=ShareKey(GROUP, ORDERS, index)))
    response = node.call(reads.ReadShareGroupStateRequest(group_id=GROUP, topics=[
        reads.ReadStateData(topic_id=topic_id, partitions=[reads.PartitionData(partition=each) for each in indexes])
        for topic_id, indexes in ((ORDERS, (2, 1, 0)), (CLICKS, (0,)), (ORDERS, (9,)))]))
    invalid = ErrorCode.INVALID_REQUEST
    assert [(topic.topic_id, [(each.partition, each.error_code) for each in topic.partitions])
            for topic in response.results] == [
        (ORDERS, [(2, ErrorCode.NONE), (1, invalid), (0, ErrorCode.NONE)]), (CLICKS, [(0, invalid)]),
        (ORDERS, [(9, invalid)])]


def test_a_failed_append_changes_nothing() -> None:
    node = initialized()
    before = state_read(node)
    node.logs.error = ErrorCode.NOT_ENOUGH_REPLICAS
    for request in (write((0, 1, ACKNOWLEDGED, 1)), initialize(state_epoch=2), read(leader_epoch=8), delete()):
        assert error(node, request) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    node.logs.error = None
    assert state_read(node) == before
    assert summary(node) == (1, 0, -1, -1)


def test_answers_wait_for_the_commit_and_end_with_the_leadership() -> None:
    node = initialized()
    node.lag = True
    late = node.send(write((0, 0, ACKNOWLEDGED, 1)))
    node.advance(5_000)
    assert code_of(late.response)[0] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    lost = node.send(write((1, 1, ACKNOWLEDGED, 1)))
    node.coordinator.shards.resign(0)
    assert code_of(lost.response)[0] == ErrorCode.NOT_COORDINATOR
    assert error(node, read()) == ErrorCode.NOT_COORDINATOR
    assert node.coordinator.shards.start_load(0, 9)
    assert error(node, read()) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
