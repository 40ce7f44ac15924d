"""States of share partitions: created before partitions are assigned, altered and deleted by operators, and removed
with their topics and groups."""

from collections.abc import Callable
from typing import Any

import pytest

from kraft.broker.groups.share.group import States
from kraft.broker.groups.share.states import INITIALIZED_AT_ONCE
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kraft.protocol.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kraft.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kraft.protocol.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
from tests.broker.groups.share.share_client import Member, ShareNode, StoredState, group_of, settle
from tests.broker.node import TOPICS, Pending

ORDERS, CLICKS = TOPICS["orders"][0], TOPICS["clicks"][0]


def initialized(node: ShareNode) -> dict[str, tuple[int, ...]]:
    return {each.name: each.partitions for each in group_of(node).states.initialized.values()}


def initializations(node: ShareNode) -> int:
    return sum(isinstance(each, InitializeShareGroupStateRequest) for each in node.share.sent)


def joined(node: ShareNode, *topics: str) -> Member:
    """Return a member of the group `g` that has its partitions."""
    member = Member(node, "m", *(topics or ("orders",)))
    assert member.join() == ErrorCode.NONE
    settle(node, member)
    return member


# -------------------------------------------------------------------- creation

def test_partitions_are_assigned_once_their_states_exist() -> None:
    node = ShareNode()
    node.share.held = True
    member = Member(node, "m", "orders")
    member.join()
    for _ in range(3):
        node.advance(5_000)
        assert member.beat() == ErrorCode.NONE
    assert initializations(node) == 1, "one request at a time"
    assert member.partitions == {}
    assert list(group_of(node).states.initializing) == [ORDERS]
    node.release()
    assert initialized(node) == {"orders": tuple(range(8))}
    assert {state.state_epoch for state in node.share.states.values()} == {2}
    assert member.beat() == ErrorCode.NONE
    assert member.partitions == {"orders": list(range(8))}


def test_the_share_coordinators_are_requested_once_it_is_committed_that_they_are() -> None:
    """Otherwise the next leader would not know of states that were created."""
    node = ShareNode(lag=True)
    pending = node.send(member_request(node, "orders"))
    assert not pending.answered
    assert not node.share.sent
    node.commit()
    assert pending.answered
    assert initializations(node) == 1


def member_request(node: ShareNode, topic: str) -> Any:
    from kraft.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
    return ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=[topic])


def test_states_that_could_not_be_created_are_requested_again_and_the_others_assigned() -> None:
    node = ShareNode()
    node.share.errors = {("orders", 3): ErrorCode.COORDINATOR_NOT_AVAILABLE}
    member = joined(node)
    assert member.partitions == {"orders": [0, 1, 2, 4, 5, 6, 7]}
    count = initializations(node)
    assert member.beat() == ErrorCode.NONE
    node.advance(100)
    assert member.beat() == ErrorCode.NONE
    assert initializations(node) <= count + 1, "a failure is not repeated at once"
    node.share.errors = {}
    settle(node, member)
    assert member.partitions == {"orders": list(range(8))}
    assert group_of(node).states == States(initialized=group_of(node).states.initialized)


def test_a_request_that_is_not_answered_is_sent_again_after_a_while() -> None:
    node = ShareNode()
    node.share.held = True
    member = Member(node, "m", "orders")
    member.join()
    node.share.open.clear()
    for _ in range(5):
        node.advance(5_000)
        member.beat()
    assert initializations(node) == 1
    node.advance(5_000)
    member.beat()
    assert initializations(node) == 2


def test_a_new_coordinator_requests_what_the_previous_one_had_begun() -> None:
    node = ShareNode()
    node.share.held = True
    member = Member(node, "m", "orders")
    member.join()
    node.share.held = False
    node.kill()
    assert member.beat() == ErrorCode.NONE
    assert initialized(node) == {"orders": tuple(range(8))}


def test_new_partitions_and_topics_are_added() -> None:
    node = ShareNode()
    member = joined(node, "orders", "later")
    node.topics.change("orders", ORDERS, 10)
    node.topics.change("later", CLICKS, 2)
    del node.topics.topics["clicks"]
    settle(node, member)
    assert initialized(node) == {"orders": tuple(range(10)), "later": (0, 1)}
    assert sorted(map(len, member.partitions.values())) == [2, 10]


def test_many_partitions_get_their_states_by_several_requests() -> None:
    node = ShareNode()
    node.topics.change("orders", ORDERS, INITIALIZED_AT_ONCE * 2 + 1)
    member = Member(node, "m", "orders")
    member.join()
    for _ in range(3):
        settle(node, member)
    assert initializations(node) == 3
    assert len(member.partitions["orders"]) == INITIALIZED_AT_ONCE * 2 + 1


def test_an_outdated_answer_changes_nothing() -> None:
    """The states of a topic that was deleted meanwhile, and those of another leader's group."""
    node = ShareNode()
    node.share.held = True
    member = Member(node, "m", "orders")
    member.join()
    node.topics.change("orders", None)
    node.coordinator.partitions_deleted([("orders", index) for index in range(8)], node.now_ms)
    node.advance(0)
    assert group_of(node).states == States()
    node.release()
    assert group_of(node).states == States()
    node.share.held = True
    member.beat(subscribed_topic_names=["clicks"])
    waiting = list(node.share.open)
    node.coordinator.shards.resign(0)
    for answer in waiting:
        answer(node.now_ms)
    assert not node.logs.records[0][-1].value or b"clicks" in (node.logs.records[0][-1].value or b"")


def test_deleted_topics_leave_the_record() -> None:
    node = ShareNode()
    member = joined(node, "orders", "clicks")
    node.topics.change("clicks", None)
    node.coordinator.partitions_deleted([("clicks", index) for index in range(4)], node.now_ms)
    node.advance(0)
    node.commit()
    assert initialized(node) == {"orders": tuple(range(8))}
    settle(node, member)
    assert member.partitions == {"orders": list(range(8))}


# -------------------------------------------------------------------- deletion of groups

def delete_group(node: ShareNode, group: str = "g") -> Pending:
    return node.send(DeleteGroupsRequest(groups_names=[group]))


def error_of(pending: Pending) -> int:
    error: int = pending.response.results[0].error_code
    return error


def test_a_group_is_deleted_after_its_states() -> None:
    node = ShareNode()
    member = joined(node)
    assert error_of(delete_group(node)) == ErrorCode.NON_EMPTY_GROUP
    member.leave()
    node.share.held = True
    pending = delete_group(node)
    assert not pending.answered
    assert member.join() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    node.release()
    assert error_of(pending) == ErrorCode.NONE
    assert node.group("g") is None
    assert not node.share.states
    node.kill()
    assert node.group("g") is None


def test_a_group_whose_states_cannot_be_deleted_stays_and_can_be_deleted_later() -> None:
    node = ShareNode()
    joined(node).leave()
    node.share.errors = {("orders", 1): ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert error_of(delete_group(node)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert list(group_of(node).states.deleting) == [ORDERS]
    node.kill()
    node.share.errors = {}
    assert error_of(delete_group(node)) == ErrorCode.NONE
    assert node.group("g") is None
    assert not node.share.states


def test_a_member_that_joins_a_group_that_could_not_be_deleted_gets_states_again() -> None:
    node = ShareNode()
    joined(node).leave()
    node.share.errors = {("orders", 1): ErrorCode.COORDINATOR_NOT_AVAILABLE}
    delete_group(node)
    node.share.errors = {}
    member = joined(node)
    assert member.partitions == {"orders": list(range(8))}
    assert not group_of(node).states.deleting


def test_a_deletion_that_breaks_off_is_refused() -> None:
    node = ShareNode()
    joined(node).leave()
    node.share.held = True
    pending = delete_group(node)
    node.coordinator.shards.resign(0)
    assert error_of(pending) == ErrorCode.NOT_COORDINATOR
    node.share.finish(node.now_ms)


# -------------------------------------------------------------------- offsets

def describe(node: ShareNode, *topics: tuple[str, list[int]], version: int = 1) -> dict[str, list[tuple[int, ...]]]:
    named = [DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=indexes) for name, indexes in topics]
    (group,) = node.call(DescribeShareGroupOffsetsRequest(groups=[DescribeShareGroupOffsetsRequestGroup(
        group_id="g", topics=named or None)]), version).groups
    assert group.error_code == ErrorCode.NONE, group
    return {topic.topic_name: [(part.partition_index, part.start_offset, part.lag, part.error_code)
                               for part in topic.partitions] for topic in group.topics}


def alter(node: ShareNode, topic: str, offsets: dict[int, int]) -> Pending:
    return node.send(AlterShareGroupOffsetsRequest(group_id="g", topics=[AlterShareGroupOffsetsRequestTopic(
        topic_name=topic, partitions=[AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
                                      for index, offset in offsets.items()])]))


def delete(node: ShareNode, *topics: str) -> Pending:
    return node.send(DeleteShareGroupOffsetsRequest(
        group_id="g", topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics]))


def test_offsets_and_lags() -> None:
    node = ShareNode()
    joined(node, "clicks")
    node.share.states["g", CLICKS, 0] = StoredState(2, 10, 3)
    node.share.states["g", CLICKS, 1] = StoredState(2, 20, 0)
    node.share.ends_of = {("clicks", 0): 50}
    node.share.errors = {("clicks", 3): ErrorCode.COORDINATOR_NOT_AVAILABLE}
    every = [(0, 10, 37, 0), (1, 0, -1, ErrorCode.LEADER_NOT_AVAILABLE), (2, -1, -1, 0), (3, -1, -1, 0)]
    assert describe(node) == {"clicks": every}
    assert describe(node, ("clicks", [0]), ("none", [7])) == {"clicks": [every[0]], "none": [(7, -1, -1, 0)]}
    assert describe(node, ("clicks", [0]), version=0) == {"clicks": [(0, 10, -1, 0)]}


def test_a_group_without_states_has_no_offsets() -> None:
    assert describe(ShareNode()) == {}


def test_offsets_are_altered_in_a_group_without_members() -> None:
    node = ShareNode()
    member = joined(node)
    assert alter(node, "orders", {0: 5}).response.error_code == ErrorCode.NON_EMPTY_GROUP
    member.leave()
    response = alter(node, "orders", {0: 5, 9: 5}).response
    assert response.error_code == ErrorCode.NONE
    assert [(part.partition_index, part.error_code) for part in response.responses[0].partitions] == [
        (0, ErrorCode.NONE), (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert node.share.states["g", ORDERS, 0].start_offset == 5
    assert node.share.states["g", ORDERS, 1].start_offset == -1
    assert alter(node, "orders", {0: 3}).response.error_code == ErrorCode.NONE
    assert node.share.states["g", ORDERS, 0].start_offset == 3
    unknown = alter(node, "none", {0: 5}).response.responses[0].partitions[0]
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_alteration_creates_the_group_and_its_errors_are_those_of_the_partitions() -> None:
    node = ShareNode()
    node.share.errors = {("orders", 1): ErrorCode.FENCED_STATE_EPOCH}
    response = alter(node, "orders", {0: 5, 1: 6}).response
    assert [part.error_code for part in response.responses[0].partitions] == [
        ErrorCode.NONE, ErrorCode.FENCED_STATE_EPOCH]
    assert initialized(node) == {"orders": (0,)}
    node.kill()
    assert group_of(node).is_empty
    node.share.errors = {}
    assert joined(node).partitions == {"orders": list(range(8))}
    assert node.share.states["g", ORDERS, 0].start_offset == 5, "a state that exists is not created again"


def test_offsets_are_deleted_in_a_group_without_members() -> None:
    node = ShareNode()
    assert delete(node, "orders").response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    member = joined(node)
    assert delete(node, "orders").response.error_code == ErrorCode.NON_EMPTY_GROUP
    member.leave()
    response = delete(node, "orders", "clicks", "none").response
    assert {each.topic_name: each.error_code for each in response.responses} == {
        "orders": ErrorCode.NONE, "clicks": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "none": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert not node.share.states
    assert group_of(node).states == States()


def test_a_deletion_that_failed_can_be_repeated() -> None:
    node = ShareNode()
    joined(node).leave()
    node.share.errors = {("orders", 1): ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert delete(node, "orders").response.responses[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    node.share.errors = {}
    assert delete(node, "orders").response.responses[0].error_code == ErrorCode.NONE
    assert group_of(node).states == States()


@pytest.mark.parametrize("change", [lambda node: alter(node, "orders", {0: 1}), lambda node: delete(node, "orders")])
def test_one_change_of_offsets_at_a_time(change: Callable[[ShareNode], Pending]) -> None:
    node = ShareNode()
    joined(node).leave()
    node.share.held = True
    pending = alter(node, "orders", {0: 7})
    assert change(node).response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    node.release()
    assert pending.response.error_code == ErrorCode.NONE
    assert change(node).response.error_code == ErrorCode.NONE


@pytest.mark.parametrize("change", [lambda node: alter(node, "orders", {0: 1}), lambda node: delete(node, "orders")])
def test_a_change_that_breaks_off_is_refused(change: Callable[[ShareNode], Pending]) -> None:
    node = ShareNode()
    joined(node).leave()
    node.share.held = True
    pending = change(node)
    node.coordinator.shards.resign(0)
    node.share.finish(node.now_ms)
    assert pending.response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
