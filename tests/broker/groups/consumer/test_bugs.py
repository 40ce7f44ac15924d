"""Faults that Kafka's consumer groups had, each by its number. Those about loads are in `test_replay`, too."""

import pytest

from kraft.broker.groups.classic.group import ClassicGroup
from kraft.broker.groups.consumer.group import ConsumerGroup
from kraft.broker.groups.consumer.member import Current, MemberState
from kraft.broker.groups.consumer.reconciling import Target, next_assignment
from kraft.broker.groups.consumer.records import CurrentChange, SubscriptionChange, TargetChange
from kraft.broker.groups.group_records import record_of
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.broker.groups.consumer.consumer_client import Member, form, settle
from tests.broker.groups.consumer.test_migration import classic_group
from tests.broker.groups.group_client import commit, errors_of, fetch, txn_commit
from tests.broker.node import TOPICS, Node

ORDERS = TOPICS["orders"][0]


def test_a_partition_that_is_given_back_while_it_is_revoked_kafka_16147() -> None:
    """The member gets it again, nobody else does, and it has one owner throughout."""
    node = Node()
    (first,) = form(node, 1)
    node.advance(1_000)
    second = Member(node, "second", "orders")
    assert second.join() == ErrorCode.NONE
    assert first.send(topic_partitions=None).error_code == ErrorCode.NONE       # it is to give four up, and waits
    assert first.beat(rebalance_timeout_ms=30_000, subscribed_topic_names=["orders"]) == ErrorCode.NONE
    assert first.state.state is MemberState.UNREVOKED_PARTITIONS
    assert second.leave() == ErrorCode.NONE     # so the first one's target has all of them again
    node.advance(1_000)
    group = node.group("g")
    assert group.owners.keys() == {(ORDERS, index) for index in range(8)}
    assert first.beat() == ErrorCode.NONE
    assert first.partitions == {"orders": list(range(8))}
    assert set(group.owners.values()) == {"m0"}


def test_a_step_never_takes_what_another_member_has_kafka_16147() -> None:
    current = Current(3, 2, MemberState.UNREVOKED_PARTITIONS, {ORDERS: {0: 2}}, {ORDERS: {1: 2}})
    target = Target(5, {ORDERS: (0, 1, 2)}, {ORDERS: None})
    others = {2: "other"}
    following = next_assignment(current, target, lambda _, index: index not in others, {ORDERS: (0,)})
    assert following == Current(5, 3, MemberState.UNRELEASED_PARTITIONS, {ORDERS: {0: 2, 1: 5}})
    assert next_assignment(current, target, lambda *_: True, {ORDERS: (0, 1)}) is current
    assert next_assignment(current, target, lambda *_: True, None) is current


def test_tombstones_without_their_group_kafka_17306() -> None:
    node = Node(1)
    node.logs.append(0, [record_of("g", change, node.now_ms) for change in (
        CurrentChange("m", None), TargetChange("m", None), SubscriptionChange("m", None))])
    node.kill()
    assert node.group("g") is None
    commit(node, {("orders", 0): 5})
    node.logs.append(0, [record_of("g", CurrentChange("m", None), node.now_ms)])
    node.kill()
    assert isinstance(node.group("g"), ClassicGroup)
    assert fetch(node) == {("orders", 0): 5}


def test_offsets_that_stand_before_their_group_kafka_20254() -> None:
    """The first record of a consumer group that compaction left may follow its offsets."""
    node = Node(1)
    commit(node, {("orders", 0): 5})
    members = form(node, 2)
    log = node.logs.records[0]
    log[:] = [*[each for each in log if each.key[1] == 1], *[each for each in log if each.key[1] != 1]]
    node.kill()
    assert isinstance(node.group("g"), ConsumerGroup)
    settle(node, *members)
    assert fetch(node) == {("orders", 0): 5}


def test_a_classic_group_after_a_consumer_group_kafka_21117() -> None:
    """A load that misses the tombstones of the consumer group still ends with the classic one."""
    node = Node(1)
    classic_group(node)
    assert Member(node, "new", "orders").join() == ErrorCode.NONE
    new = Member(node, "new", "orders")
    new.epoch = 2
    assert new.leave() == ErrorCode.NONE
    assert isinstance(node.group("g"), ClassicGroup)
    log = node.logs.records[0]
    log[:] = [each for each in log if each.value is not None]
    node.kill()
    assert isinstance(node.group("g"), ClassicGroup)


@pytest.mark.parametrize("version", [9, 10])
def test_a_fetch_in_an_old_epoch_is_stale_and_never_without_offsets(version: int) -> None:
    """Clients took "no offset" for the truth, and skipped records: the answer is STALE_MEMBER_EPOCH, to be retried."""
    node = Node()
    (member,) = form(node, 1)
    assert errors_of(commit(node, {("orders", 0): 5}, member="m0", generation=member.epoch)) == [0]

    def fetched(member_id: str | None, epoch: int) -> tuple[int, list[int]]:
        (group,) = node.call(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(
            group_id="g", member_id=member_id, member_epoch=epoch, topics=[OffsetFetchRequestTopics(
                name="orders", topic_id=ORDERS, partition_indexes=[0])])]), version).groups
        return group.error_code, [each.committed_offset for topic in group.topics for each in topic.partitions]

    assert fetched("m0", member.epoch) == fetched(None, -1) == (0, [5])
    assert fetched("m0", member.epoch - 1) == fetched("m0", member.epoch + 1) == (ErrorCode.STALE_MEMBER_EPOCH, [])
    assert fetched("nobody", member.epoch) == (ErrorCode.UNKNOWN_MEMBER_ID, [])


def test_commits_and_epochs_kip_1251() -> None:
    node = Node()
    first, second = form(node, 2)
    mine, theirs = first.partitions["orders"][0], second.partitions["orders"][0]

    def committed(partition: int, epoch: int, version: int = 9, member: str = "m0") -> list[int]:
        return errors_of(commit(node, {("orders", partition): 5}, member=member, generation=epoch, version=version))

    assert first.epoch == 3
    assert committed(mine, 3) == committed(mine, 2) == [0]      # it has had the partition since epoch 2
    assert committed(theirs, 2) == committed(mine, 1) == committed(mine, 4) == [ErrorCode.STALE_MEMBER_EPOCH]
    assert committed(mine, 3, version=8) == [ErrorCode.UNSUPPORTED_VERSION]
    assert committed(mine, 3, member="nobody") == committed(mine, -1, member="") == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_transactional_commits_and_epochs_kip_1319() -> None:
    node = Node()
    (member,) = form(node, 1)
    assert errors_of(txn_commit(node, {("orders", 0): 5}, member="m0", generation=member.epoch)) == [0]
    assert errors_of(txn_commit(node, {("orders", 0): 5})) == [0]
    assert errors_of(txn_commit(node, {("orders", 0): 5}, member="m0", generation=member.epoch + 1)) == [
        ErrorCode.ILLEGAL_GENERATION]
    assert errors_of(txn_commit(node, {("orders", 0): 5}, member="x", generation=1)) == [ErrorCode.UNKNOWN_MEMBER_ID]
