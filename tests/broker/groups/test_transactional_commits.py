"""TxnOffsetCommit, the markers that end its transactions, and the offsets that are pending until then."""

import random
from typing import Any

import pytest

from kraft.broker.coordinator.shard import Producer, Shard
from kraft.broker.groups.classic.group import GroupState
from kraft.broker.groups.shard import GroupShard
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kraft.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kraft.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.broker.groups.group_client import (
    PRODUCER,
    commit,
    errors_of,
    fetch,
    form_group,
    join,
    join_new,
    leave,
    txn_commit,
)
from tests.broker.node import Logs, Node


def stable_errors(node: Node, *partitions: int) -> list[tuple[int, int]]:
    """Offset and error of partitions of "orders", for a client that requires stable offsets."""
    request = OffsetFetchRequest(require_stable=True, groups=[OffsetFetchRequestGroup(group_id="g", topics=[
        OffsetFetchRequestTopics(name="orders", partition_indexes=list(partitions))])])
    (topic,) = node.call(request, 9).groups[0].topics
    return [(each.committed_offset, each.error_code) for each in topic.partitions]


# -------------------------------------------------------------------- pending and stable

@pytest.mark.parametrize("version", range(6))
def test_offsets_are_pending_until_the_marker(version: int) -> None:
    node = Node()
    commit(node, {("orders", 0): 1})
    assert errors_of(txn_commit(node, {("orders", 0): 5, ("clicks", 1): 6}, version=version)) == [0, 0]
    assert fetch(node) == {("orders", 0): 1}
    assert stable_errors(node, 0, 2) == [(-1, ErrorCode.UNSTABLE_OFFSET_COMMIT), (-1, ErrorCode.NONE)]
    node.end_transaction("g", PRODUCER.producer_id, committed=True)
    assert fetch(node, stable=True) == {("orders", 0): 5, ("clicks", 1): 6}
    node.kill()
    assert fetch(node, stable=True) == {("orders", 0): 5, ("clicks", 1): 6}
    (_, transaction, adds, knows_abortable), = node.verifications.requested
    assert (transaction.transactional_id, transaction.producer) == ("t", PRODUCER)
    assert (adds, knows_abortable) == (version >= 5, version >= 4)


def test_an_abort_drops_the_pending_offsets() -> None:
    node = Node()
    txn_commit(node, {("orders", 0): 5})
    txn_commit(node, {("orders", 1): 6}, producer=Producer(12, 0))
    node.end_transaction("g", 12, committed=True)
    assert stable_errors(node, 0, 1) == [(-1, ErrorCode.UNSTABLE_OFFSET_COMMIT), (6, ErrorCode.NONE)]
    node.end_transaction("g", PRODUCER.producer_id, committed=False)
    node.end_transaction("g", 13, committed=True)
    assert fetch(node, stable=True) == {("orders", 1): 6}
    node.kill()
    assert fetch(node, stable=True) == {("orders", 1): 6}


def test_offsets_stay_pending_over_a_change_of_leader() -> None:
    node = Node()
    txn_commit(node, {("orders", 0): 5})
    node.kill()
    assert stable_errors(node, 0) == [(-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)]
    node.end_transaction("g", PRODUCER.producer_id, committed=True)
    assert fetch(node, stable=True) == {("orders", 0): 5}


def test_one_offset_in_two_transactions_is_pending_until_both_end() -> None:
    node = Node()
    txn_commit(node, {("orders", 0): 5})
    txn_commit(node, {("orders", 0): 6}, producer=Producer(12, 0))
    node.end_transaction("g", 12, committed=True)
    assert stable_errors(node, 0) == [(-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)]
    node.end_transaction("g", PRODUCER.producer_id, committed=True)
    assert stable_errors(node, 0) == [(6, ErrorCode.NONE)], "the later record wins, not the later marker"


def test_a_commit_after_the_transactional_one_wins() -> None:
    node = Node()
    txn_commit(node, {("orders", 0): 5})
    commit(node, {("orders", 0): 9})
    node.end_transaction("g", PRODUCER.producer_id, committed=True)
    assert fetch(node) == {("orders", 0): 9}


def test_an_answer_waits_for_its_records_and_a_read_for_the_marker() -> None:
    node = Node(1, lag=True)
    pending = txn_commit(node, {("orders", 0): 5})
    assert not pending.answered
    node.commit()
    assert errors_of(pending) == [0]
    node.end_transaction("g", PRODUCER.producer_id, committed=True)
    read = node.send(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]))
    assert not read.answered
    node.commit()
    assert read.response.groups[0].topics[0].partitions[0].committed_offset == 5


# -------------------------------------------------------------------- fencing

def test_members_commit_in_their_generation() -> None:
    node = Node()
    leader, follower = form_group(node, 2)
    offsets = {("orders", 0): 1}
    member = {"member": follower.member_id, "generation": 2}
    assert errors_of(txn_commit(node, offsets, **member)) == [ErrorCode.NONE]
    assert errors_of(txn_commit(node, offsets)) == [ErrorCode.NONE], "without a member, the producer's epoch fences"
    assert errors_of(txn_commit(node, offsets, member="nobody", generation=2)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert errors_of(txn_commit(node, offsets, member=follower.member_id)) == [ErrorCode.ILLEGAL_GENERATION]
    assert errors_of(txn_commit(node, offsets, member=follower.member_id, generation=1)) == \
        [ErrorCode.ILLEGAL_GENERATION]
    assert errors_of(txn_commit(node, offsets, **member, instance="red")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    join_new(node)
    again = [join(node, member=each.member_id) for each in (leader, follower)]
    assert node.group("g").state is GroupState.COMPLETING_REBALANCE
    assert errors_of(txn_commit(node, offsets, **member)) == [ErrorCode.ILLEGAL_GENERATION]
    assert errors_of(txn_commit(node, offsets, member=follower.member_id,
                                generation=again[1].response.generation_id)) == [ErrorCode.NONE]


def test_a_static_member_that_was_replaced_is_fenced() -> None:
    node = Node()
    members = [join(node, instance="red").response for _ in range(2)]
    errors = [errors_of(txn_commit(node, {("orders", 0): 1}, member=each.member_id, instance="red",
                                   generation=each.generation_id)) for each in members]
    assert errors == [[ErrorCode.FENCED_INSTANCE_ID], [ErrorCode.NONE]]


def test_groups_that_do_not_exist() -> None:
    node = Node()
    assert errors_of(txn_commit(node, {("orders", 0): 1}, member="m", generation=1)) == [ErrorCode.ILLEGAL_GENERATION]
    assert errors_of(txn_commit(node, {("orders", 0): 1}, group="")) == [ErrorCode.INVALID_GROUP_ID]
    assert node.group("g") is None
    assert errors_of(txn_commit(node, {("orders", 0): 1})) == [ErrorCode.NONE]
    assert node.group("g").is_simple


def test_topics_that_do_not_exist_and_long_metadata() -> None:
    node = Node(offset_metadata_max_bytes=4)
    pending = txn_commit(node, {("nothing", 0): 1, ("orders", 0): 2, ("orders", 8): 3})
    found = {(topic.name, each.partition_index): each.error_code
             for topic in pending.response.topics for each in topic.partitions}
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found == {("nothing", 0): missing, ("orders", 8): missing, ("orders", 0): ErrorCode.NONE}
    assert errors_of(txn_commit(node, {("nothing", 0): 1})) == [missing]
    assert errors_of(txn_commit(node, {("orders", 0): 3}, metadata="abcde")) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    node.end_transaction("g", PRODUCER.producer_id, committed=True)
    assert fetch(node) == {("orders", 0): 2}


# -------------------------------------------------------------------- verification

@pytest.mark.parametrize(("found", "given"), [
    (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
    (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
    (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
    (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)])
def test_a_transaction_that_is_not_verified(found: ErrorCode, given: ErrorCode) -> None:
    node = Node()
    node.verifications.error = found
    assert errors_of(txn_commit(node, {("orders", 0): 1})) == [given]
    assert node.group("g") is None
    assert not any(node.logs.records)


def test_loading_has_another_name_for_old_clients() -> None:
    node = Node()
    node.verifications.error = ErrorCode.NETWORK_EXCEPTION
    assert errors_of(txn_commit(node, {("orders", 0): 1}, version=1)) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE])
def test_after_a_marker_during_the_verification_it_is_verified_again(error: ErrorCode) -> None:
    """The transaction was confirmed before a marker: is it the one that ended, or the next one?"""
    node = Node()
    node.verifications.held = True
    pending = txn_commit(node, {("orders", 0): 1})
    other = txn_commit(node, {("orders", 1): 1}, producer=Producer(12, 0))
    node.end_transaction("g", PRODUCER.producer_id, committed=False)
    node.verifications.finish()
    node.commit()
    assert errors_of(other) == [ErrorCode.NONE]
    assert not pending.answered
    assert stable_errors(node, 0) == [(-1, ErrorCode.NONE)], "nothing may follow the marker"
    node.verifications.finish(error)
    node.commit()
    assert errors_of(pending) == [error]
    assert len(node.verifications.requested) == 3


def test_before_version_5_a_marker_during_the_verification_sends_the_client_away() -> None:
    """The next transaction may have the same epoch: the offsets of the ended one must not become a part of it."""
    node = Node()
    node.verifications.held = True
    pending = txn_commit(node, {("orders", 0): 1}, version=4)
    node.end_transaction("g", PRODUCER.producer_id, committed=False)
    node.verifications.finish()
    node.commit()
    assert errors_of(pending) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert len(node.verifications.requested) == 1


def test_a_leader_that_resigns_during_the_verification() -> None:
    node = Node()
    node.verifications.held = True
    pending = txn_commit(node, {("orders", 0): 1})
    partition = node.coordinator.shards.partition_for("g")
    node.epoch += 1
    node.coordinator.shards.resign(partition, node.epoch)
    assert errors_of(pending) == [ErrorCode.NOT_COORDINATOR]
    node.load()
    node.verifications.finish()
    assert not any(node.logs.records)
    assert node.group("g") is None


def test_the_group_is_checked_after_the_verification() -> None:
    node = Node()
    (member,) = form_group(node, 1)
    node.verifications.held = True
    pending = txn_commit(node, {("orders", 0): 1}, member=member.member_id, generation=1)
    leave(node, member.member_id)
    node.verifications.finish(now_ms=node.now_ms + 70)
    assert errors_of(pending) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_commits_carry_the_time_after_the_verification() -> None:
    node = Node()
    node.verifications.held = True
    txn_commit(node, {("orders", 0): 1})
    node.verifications.finish(now_ms=node.now_ms + 70)
    node.end_transaction("g", PRODUCER.producer_id, committed=True)
    assert node.state_of("g").offsets.get("g", "orders", 0).commit_timestamp_ms == node.now_ms + 70


def test_a_failed_append_is_reported_and_nothing_is_pending() -> None:
    node = Node()
    node.logs.error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert errors_of(txn_commit(node, {("orders", 0): 1})) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    node.logs.error = ErrorCode.INVALID_PRODUCER_EPOCH
    assert errors_of(txn_commit(node, {("orders", 0): 1})) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert stable_errors(node, 0) == [(-1, ErrorCode.NONE)]


# -------------------------------------------------------------------- groups with pending offsets

def delete_offset(node: Node, partition: int) -> int:
    response = node.call(OffsetDeleteRequest(group_id="g", topics=[OffsetDeleteRequestTopic(
        name="orders", partitions=[OffsetDeleteRequestPartition(partition_index=partition)])]))
    error: int = response.topics[0].partitions[0].error_code
    return error


def test_a_deleted_offset_does_not_come_back_with_the_marker() -> None:
    node = Node()
    txn_commit(node, {("orders", 0): 5, ("orders", 1): 6})
    assert delete_offset(node, 0) == ErrorCode.NONE
    assert stable_errors(node, 0, 1) == [(-1, ErrorCode.NONE), (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)]
    node.end_transaction("g", PRODUCER.producer_id, committed=True)
    assert fetch(node) == {("orders", 1): 6}
    node.kill()
    assert fetch(node) == {("orders", 1): 6}


def test_a_deleted_group_does_not_come_back_with_the_marker() -> None:
    node = Node()
    txn_commit(node, {("orders", 0): 5})
    (result,) = node.call(DeleteGroupsRequest(groups_names=["g"])).results
    assert result.error_code == ErrorCode.NONE
    node.end_transaction("g", PRODUCER.producer_id, committed=True)
    assert node.group("g") is None
    node.kill()
    assert node.group("g") is None


def test_a_group_that_is_being_deleted_during_the_verification() -> None:
    node = Node(lag=True)
    for number in range(600):
        commit(node, {("orders", number % 8): number}, group="g")
    node.commit()
    node.verifications.held = True
    pending = txn_commit(node, {("orders", 0): 1})
    node.send(DeleteGroupsRequest(groups_names=["g"]))
    assert "g" in node.state_of("g").deleting
    node.verifications.finish()
    node.commit()
    assert errors_of(pending) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]


def test_pending_offsets_keep_their_group_and_the_previous_offset_from_expiry() -> None:
    node = Node(offsets_retention_ms=1_000, offsets_retention_check_interval_ms=100)
    commit(node, {("orders", 0): 1})
    txn_commit(node, {("orders", 0): 5})
    txn_commit(node, {("orders", 1): 5}, group="h")
    node.advance(5_000)
    assert fetch(node) == {("orders", 0): 1}
    assert node.group("h") is not None
    for producer in ("g", "h"):
        node.end_transaction(producer, PRODUCER.producer_id, committed=False)
    node.advance(5_000)
    assert fetch(node) == {}
    assert node.group("g") is node.group("h") is None


def test_offsets_of_a_deleted_topic_are_not_committed_later() -> None:
    node = Node()
    txn_commit(node, {("orders", 0): 5, ("clicks", 0): 6})
    node.coordinator.partitions_deleted([("orders", 0)], node.now_ms)
    node.advance(0)
    node.end_transaction("g", PRODUCER.producer_id, committed=True)
    assert fetch(node) == {("clicks", 0): 6}


# -------------------------------------------------------------------- replay

GROUPS = ("g", "h")


def written(seed: int) -> Node:
    """A node after random commits, transactional commits, deletions and markers."""
    choose = random.Random(seed)
    node = Node(1)
    for _ in range(60):
        group, producer = choose.choice(GROUPS), Producer(choose.choice((11, 12, 13)), 0)
        offsets = {("orders", choose.randrange(3)): choose.randrange(1_000)}
        action = choose.randrange(10)
        if action < 3:
            commit(node, offsets, group)
        elif action < 7:
            txn_commit(node, offsets, group, producer=producer)
        elif action < 9:
            node.end_transaction(group, producer.producer_id, committed=choose.random() < 0.6)
        elif node.group(group) is not None:
            node.call(OffsetDeleteRequest(group_id=group, topics=[OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=partition)])
                for topic, partition in offsets]))
    return node


def offsets_of(state: GroupShard) -> Any:
    """Offsets of all groups: committed ones, and which are pending."""
    return {group: ({(topic, index): offset for topic, each in state.offsets.of_group(group).items()
                     for index, offset in each.items()},
                    [index for index in range(3) if state.offsets.is_pending(group, "orders", index)])
            for group in GROUPS}


def replayed(node: Node, logs: Logs, dropped: frozenset[int] = frozenset()) -> GroupShard:
    state = GroupShard(Shard(0, 1, logs, 5_000), node.state_of("g").environment)
    logs.replay(0, state, dropped)
    return state


@pytest.mark.parametrize("seed", range(30))
def test_every_prefix_and_every_compaction_replays_to_the_same_offsets(seed: int) -> None:
    """Compaction drops records that a later one with their key replaces, and those of aborted transactions. It keeps
    records of open transactions."""
    node = written(seed)
    logs = node.logs
    assert offsets_of(replayed(node, logs)) == offsets_of(node.state_of("g"))
    logs.committed[0] = 0
    choose = random.Random(seed)
    while logs.records[0]:
        droppable = compactable(logs)
        dropped = frozenset(offset for offset in droppable if choose.random() < 0.7)
        assert offsets_of(replayed(node, logs, dropped)) == offsets_of(replayed(node, logs)), len(logs.records[0])
        logs.truncate(0, len(logs.records[0]) - choose.randrange(1, 4)
                      if len(logs.records[0]) > 3 else 0)


def compactable(logs: Logs) -> list[int]:
    """Return the offsets that compaction may drop."""
    ended: dict[int, bool] = {}                 # record of a transaction -> whether it was committed
    open_records: dict[int, list[int]] = {}
    for offset in range(len(logs.records[0])):
        if offset in logs.markers[0]:
            producer_id, committed = logs.markers[0][offset]
            ended.update(dict.fromkeys(open_records.pop(producer_id, ()), committed))
        elif offset in logs.producers[0]:
            open_records.setdefault(logs.producers[0][offset].producer_id, []).append(offset)
    first_open = min((offsets[0] for offsets in open_records.values()), default=len(logs.records[0]))
    dropped = []
    newest: set[bytes] = set()
    for offset in reversed(range(first_open)):
        record = logs.records[0][offset]
        if offset in logs.markers[0]:
            continue
        if ended.get(offset) is False or record.key in newest:
            dropped.append(offset)
        else:
            newest.add(record.key)
    return dropped
