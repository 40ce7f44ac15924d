"""Groups that change between the classic and the consumer protocol while they have members."""

from typing import Any

import pytest

from kraft.broker.groups.classic.group import ClassicGroup, GroupState
from kraft.broker.groups.consumer.cluster import ConsumerGroupConfig
from kraft.broker.groups.consumer.group import ConsumerGroup
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from kraft.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kraft.protocol.messages.consumer_protocol_subscription import TopicPartition as OwnedPartition
from tests.broker.groups.consumer.consumer_client import Member, describe
from tests.broker.groups.group_client import commit, errors_of, fetch, heartbeat, join, leave, sync
from tests.broker.node import Node

VERSION = 3


def assigned(**topics: list[int]) -> bytes:
    return VERSION.to_bytes(2, "big") + ConsumerProtocolAssignment(assigned_partitions=[
        TopicPartition(topic=name, partitions=indexes) for name, indexes in topics.items()]).encode(VERSION)


def read(data: bytes) -> dict[str, list[int]]:
    if not data:
        return {}
    found = ConsumerProtocolAssignment.decode(data[2:], int.from_bytes(data[:2], "big"))
    return {each.topic: sorted(each.partitions) for each in found.assigned_partitions}


class Classic:
    """A cooperative client of the classic protocol: it rejoins when that is requested, with what it has."""

    def __init__(self, node: Node, name: str = "", instance: str | None = None) -> None:
        self.node = node
        self.instance = instance
        self.member_id = name
        self.partitions: dict[str, list[int]] = {}
        self.joined: Any = None

    def send_join(self) -> Any:
        owned = [OwnedPartition(topic=name, partitions=indexes) for name, indexes in self.partitions.items()]
        metadata = VERSION.to_bytes(2, "big") + ConsumerProtocolSubscription(
            topics=["orders"], owned_partitions=owned).encode(VERSION)
        return join(self.node, "g", self.member_id, instance=self.instance,
                    protocols={"cooperative-sticky": metadata, "range": metadata})

    def join(self) -> int:
        """Join a consumer group, which answers at once, and sync."""
        self.joined = self.send_join().response
        if self.joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = self.joined.member_id
            self.joined = self.send_join().response
        if self.joined.error_code:
            return int(self.joined.error_code)
        self.member_id = self.joined.member_id
        return self.sync()

    def sync(self) -> int:
        response = sync(self.node, self.joined, "g").response
        if not response.error_code:
            self.partitions = read(response.assignment)
        return int(response.error_code)

    def beat(self) -> int:
        """Send a heartbeat; rejoin when that is requested."""
        error = heartbeat(self.node, self.joined, "g", group_instance_id=self.instance)
        return self.join() if error == ErrorCode.REBALANCE_IN_PROGRESS else error


def classic_group(node: Node) -> Classic:
    """A stable classic group of one member that has all partitions."""
    member = Classic(node)
    first = member.send_join().response
    member.member_id = first.member_id
    member.joined = member.send_join().response
    answer = sync(node, member.joined, "g", assignments={member.member_id: assigned(orders=list(range(8)))}).response
    member.partitions = read(answer.assignment)
    assert isinstance(node.group("g"), ClassicGroup)
    return member


def settle(node: Node, classic: list[Classic], members: list[Member]) -> None:
    for _ in range(20):
        for old in classic:
            assert old.beat() in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
        for new in members:
            assert new.beat() == ErrorCode.NONE
        node.advance(1_000)
        if describe(node).group_state == "Stable":
            return
    raise AssertionError("the group does not come to rest")


def test_up_and_down() -> None:
    node = Node()
    old = classic_group(node)
    assert errors_of(commit(node, {("orders", 0): 7}, member=old.member_id,
                            generation=old.joined.generation_id)) == [0]
    generation = old.joined.generation_id
    new = Member(node, "new", "orders")
    assert new.join() == ErrorCode.NONE
    group = node.group("g")
    assert isinstance(group, ConsumerGroup)
    assert group.epoch == generation + 1
    assert {each.member_type for each in describe(node).members} == {0, 1}
    settle(node, [old], [new])
    assert sorted(old.partitions["orders"] + new.partitions["orders"]) == list(range(8))
    assert len(new.partitions["orders"]) == 4
    assert fetch(node) == {("orders", 0): 7}
    before = describe(node)
    node.kill()
    assert describe(node) == before
    assert errors_of(commit(node, {("orders", 0): 8}, member=old.member_id, generation=99)) == [
        ErrorCode.ILLEGAL_GENERATION]
    assert new.leave() == ErrorCode.NONE
    group = node.group("g")
    assert isinstance(group, ClassicGroup)
    assert group.state is GroupState.PREPARING_REBALANCE
    assert heartbeat(node, old.joined, generation_id=group.generation_id) == ErrorCode.REBALANCE_IN_PROGRESS
    old.joined = old.send_join().response
    assert old.joined.leader == old.member_id
    answer = sync(node, old.joined, "g", assignments={old.member_id: assigned(orders=list(range(8)))}).response
    assert read(answer.assignment) == {"orders": list(range(8))}
    assert node.group("g").state is GroupState.STABLE
    assert fetch(node) == {("orders", 0): 7}
    node.kill()
    assert node.group("g").state is GroupState.STABLE


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_classic_group_stays_one(policy: str) -> None:
    node = Node(consumer=ConsumerGroupConfig(migration_policy=policy))
    old = classic_group(node)
    assert Member(node, "new", "orders").join() == ErrorCode.GROUP_ID_NOT_FOUND
    assert heartbeat(node, old.joined) == ErrorCode.NONE


def test_a_disabled_policy_keeps_classic_members_out() -> None:
    node = Node(consumer=ConsumerGroupConfig(migration_policy="disabled"))
    assert Member(node, "new", "orders").join() == ErrorCode.NONE
    assert Classic(node).join() == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_group_with_data_of_its_own_assignor_stays_classic() -> None:
    node = Node()
    old = classic_group(node)
    node.group("g").members[old.member_id].assignment = VERSION.to_bytes(2, "big") + ConsumerProtocolAssignment(
        user_data=b"own").encode(VERSION)
    new = Member(node, "new", "orders")
    assert new.join() == ErrorCode.GROUP_ID_NOT_FOUND
    assert "custom assignor" in new.response.error_message


def test_a_consumer_group_stays_one() -> None:
    node = Node(consumer=ConsumerGroupConfig(migration_policy="upgrade"))
    old = classic_group(node)
    new = Member(node, "new", "orders")
    assert new.join() == ErrorCode.NONE
    settle(node, [old], [new])
    assert new.leave() == ErrorCode.NONE
    assert isinstance(node.group("g"), ConsumerGroup)
    settle(node, [old], [])
    assert old.partitions == {"orders": list(range(8))}
    assert leave(node, old.member_id).members[0].error_code == ErrorCode.NONE
    assert node.group("g").is_empty


def test_a_rebalance_under_way_is_broken_off() -> None:
    node = Node()
    old = classic_group(node)
    other = Classic(node)
    other.member_id = other.send_join().response.member_id
    waiting = other.send_join()
    assert not waiting.answered
    new = Member(node, "new", "orders")
    assert new.join() == ErrorCode.NONE
    assert waiting.response.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    settle(node, [old], [new])


def test_a_classic_member_joins_a_consumer_group_and_is_lost() -> None:
    node = Node()
    new = Member(node, "new", "orders")
    assert new.join() == ErrorCode.NONE
    old = Classic(node)
    assert old.join() == ErrorCode.NONE
    settle(node, [old], [new])
    assert len(old.partitions["orders"]) == len(new.partitions["orders"]) == 4
    other = join(node, "g", "x", protocols={"other": b"\0\1\0\0\0\0\0\0\0\0"})
    assert other.response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    for _ in range(4):
        node.advance(4_000)
        assert new.beat() == ErrorCode.NONE
    assert node.group("g").subscriptions.keys() == {"new"}      # its session is 10 s
    assert heartbeat(node, old.joined) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_static_consumer_is_replaced_by_a_classic_member() -> None:
    node = Node()
    new = Member(node, "new", "orders", instance="one")
    assert new.join() == ErrorCode.NONE
    old = Classic(node, instance="two")
    assert old.join() == ErrorCode.NONE
    settle(node, [old], [new])
    again = Classic(node, instance="one")
    answer = again.send_join().response
    assert answer.error_code == ErrorCode.NONE
    assert isinstance(node.group("g"), ClassicGroup)
    assert node.group("g").members.keys() == {old.member_id, answer.member_id}
