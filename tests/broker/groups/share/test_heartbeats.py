"""ShareGroupHeartbeat and ShareGroupDescribe: members join, share partitions, are fenced, expire and leave."""

import json
from typing import Any

import pytest

from kraft.broker.coordinator.shard import StoredRecord
from kraft.broker.groups.group_records import decode
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.list_groups_request import ListGroupsRequest
from kraft.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from tests.broker.groups.consumer.consumer_client import Member as ConsumerMember
from tests.broker.groups.group_client import commit, errors_of, form_group, join
from tests.broker.groups.share.share_client import Member, ShareNode, describe, group_of, settle
from tests.broker.node import TOPICS
from tests.golden import golden, needs_golden

ORDERS = TOPICS["orders"][0]


def written(node: ShareNode) -> list[tuple[int, Any]]:
    """The types of the records that were written, and what each changes."""
    found = []
    for number, record in enumerate(node.logs.records[0]):
        replayed: Any = decode(StoredRecord(number, record.key, record.value))
        found.append((int.from_bytes(record.key[:2], "big"), replayed.change))
    return found


@pytest.mark.parametrize(("fields", "message"), [
    ({"member_id": ""}, "MemberId can't be empty."),
    ({"group_id": ""}, "GroupId can't be empty."),
    ({"rack_id": ""}, "RackId can't be empty."),
    ({"subscribed_topic_names": None}, "SubscribedTopicNames must be set in first request."),
    ({"subscribed_topic_names": []}, "SubscribedTopicNames must be set in first request."),
    ({"member_epoch": -2}, "MemberEpoch is invalid."),
    ({"subscribed_topic_names": ["t"] * 2_001}, "SubscribedTopicNames has more than 2000 names."),
])
def test_the_form_of_a_request(fields: dict[str, Any], message: str) -> None:
    node = ShareNode()
    response = node.call(ShareGroupHeartbeatRequest(**{
        "group_id": "g", "member_id": "m", "member_epoch": 0, "subscribed_topic_names": ["orders"], **fields}), 1)
    assert (response.error_code, response.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert not node.logs.records[0]


@needs_golden
def test_a_members_life_has_the_records_that_kafka_wrote() -> None:
    """One member of a topic with three partitions joins, gets them once their states exist, and leaves."""
    node = ShareNode()
    node.topics.change("orders", ORDERS, 3)
    member = Member(node, "m", "orders")
    assert member.join() == ErrorCode.NONE
    assert (member.epoch, member.partitions) == (2, {})
    node.advance(5_000)
    assert member.beat() == ErrorCode.NONE
    assert (member.epoch, member.partitions) == (3, {"orders": [0, 1, 2]})
    assert member.leave() == ErrorCode.NONE
    lines = [json.loads(line) for line in golden("log", "expected", "internal-topics-decoded.jsonl").read_text(
        "utf-8").splitlines() if '"share-g"' in line and "__consumer_offsets" in line]
    expected = [(int(line["key"]["type"]), isinstance(line["payload"], str)) for line in lines]
    assert [(type_, change[-1] is None) for type_, change in written(node)] == expected
    epochs = {11: "epoch", 12: "assignmentEpoch", 14: "memberEpoch"}
    for (type_, change), line in zip(written(node), lines, strict=True):
        if type_ in epochs and change[-1] is not None:
            assert change[-1].epoch == line["payload"]["data"][epochs[type_]]


def test_members_share_what_is_too_little_for_each() -> None:
    node = ShareNode()
    node.topics.change("orders", ORDERS, 2)
    members = [Member(node, f"m{number}", "orders") for number in range(5)]
    for member in members:
        assert member.join() == ErrorCode.NONE
    settle(node, *members)
    held = [index for member in members for index in member.partitions["orders"]]
    assert sorted(held) == [0, 0, 0, 1, 1, 1]
    found = describe(node)
    assert (found.group_state, found.assignor_name, found.group_epoch) == ("Stable", "simple", found.assignment_epoch)
    assert [member.member_id for member in found.members] == ["m4", "m3", "m2", "m1", "m0"]
    assert [topic.topic_name for topic in found.members[0].assignment.topic_partitions] == ["orders"]


def test_an_answer_that_was_lost_is_given_again_and_other_epochs_are_fenced() -> None:
    node = ShareNode()
    member = Member(node, "m", "orders")
    member.join()
    node.advance(2_000)
    member.beat()
    before = member.epoch
    assert member.beat(member_epoch=before - 1) == ErrorCode.NONE
    assert member.beat(member_epoch=before - 2) == ErrorCode.FENCED_MEMBER_EPOCH
    assert member.beat(member_epoch=before + 1) == ErrorCode.FENCED_MEMBER_EPOCH
    assert member.join() == ErrorCode.NONE
    assert member.epoch == before
    assert member.partitions == {"orders": list(range(8))}
    assert Member(node, "other", "orders").send(member_epoch=1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert Member(node, "m", group="none").send(member_epoch=1).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_most_heartbeats_write_nothing() -> None:
    node = ShareNode()
    member = Member(node, "m", "orders")
    member.join()
    settle(node, member)
    count = len(node.logs.records[0])
    for _ in range(5):
        node.advance(5_000)
        assert member.beat() == ErrorCode.NONE
        assert member.response.assignment is None
    assert len(node.logs.records[0]) == count


def test_a_full_group_refuses_new_members() -> None:
    node = ShareNode()
    node.coordinator.config.share.max_size = 1  # type: ignore[misc]
    member = Member(node, "m", "orders")
    assert member.join() == ErrorCode.NONE
    assert Member(node, "n", "orders").join() == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert member.beat() == ErrorCode.NONE


def test_an_unresponsive_member_is_removed_and_the_group_stays() -> None:
    node = ShareNode()
    first, second = Member(node, "a", "orders"), Member(node, "b", "orders")
    first.join()
    second.join()
    settle(node, first, second)
    node.advance(40_000)
    first.beat()
    node.advance(10_000)
    assert list(group_of(node).subscriptions) == ["a"]
    settle(node, first)
    assert first.partitions == {"orders": list(range(8))}
    assert second.beat() == ErrorCode.UNKNOWN_MEMBER_ID
    node.advance(60_000)
    assert group_of(node).is_empty
    node.advance(30 * 24 * 3_600_000)
    (listed,) = node.call(ListGroupsRequest()).groups
    assert (listed.group_id, listed.group_type, listed.protocol_type, listed.group_state) == (
        "g", "share", "share", "Empty")


def test_sessions_begin_again_with_a_new_coordinator() -> None:
    node = ShareNode()
    member = Member(node, "m", "orders")
    member.join()
    node.advance(40_000)
    node.kill()
    node.advance(40_000)
    assert member.beat() == ErrorCode.NONE
    node.advance(46_000)
    assert group_of(node).is_empty


def test_settings_of_a_group() -> None:
    node = ShareNode()
    node.topics.configs["g"] = {"share.session.timeout.ms": "50000", "share.heartbeat.interval.ms": "7000"}
    member = Member(node, "m", "orders")
    member.join()
    assert member.response.heartbeat_interval_ms == 7_000
    node.advance(49_000)
    assert not group_of(node).is_empty
    node.advance(2_000)
    assert group_of(node).is_empty


def test_a_changed_subscription_changes_the_assignment() -> None:
    node = ShareNode()
    member = Member(node, "m", "orders")
    member.join()
    settle(node, member)
    assert member.beat(subscribed_topic_names=["clicks"]) == ErrorCode.NONE
    settle(node, member)
    assert member.partitions == {"clicks": [0, 1, 2, 3]}


def test_a_target_of_many_partitions_is_computed_by_the_clock() -> None:
    node = ShareNode()
    node.topics.change("orders", ORDERS, 1_500)
    members = [Member(node, f"m{number}", "orders") for number in range(3)]
    for member in members:
        member.join()
    for _ in range(3):
        settle(node, *members)
    held = [index for member in members for index in member.partitions["orders"]]
    assert sorted(held) == list(range(1_500))
    assert {len(member.partitions["orders"]) for member in members} == {500}


def test_a_group_id_has_one_kind() -> None:
    node = ShareNode()
    (joined,) = form_group(node, 1, "classic")
    assert joined.error_code == ErrorCode.NONE
    assert Member(node, "m", "orders", group="classic").join() == ErrorCode.GROUP_ID_NOT_FOUND
    assert ConsumerMember(node, "c", "orders", group="consumer").join() == ErrorCode.NONE
    assert Member(node, "m", "orders", group="consumer").join() == ErrorCode.GROUP_ID_NOT_FOUND
    commit(node, {("orders", 0): 1}, "simple")
    assert Member(node, "m", "orders", group="simple").join() == ErrorCode.GROUP_ID_NOT_FOUND
    assert Member(node, "m", "orders", group="share").join() == ErrorCode.NONE
    assert ConsumerMember(node, "c", "orders", group="share").join() == ErrorCode.GROUP_ID_NOT_FOUND
    assert join(node, "share").response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert errors_of(commit(node, {("orders", 0): 1}, "share")) == [ErrorCode.GROUP_ID_NOT_FOUND]


def test_a_group_that_cannot_be_described() -> None:
    node = ShareNode()
    commit(node, {("orders", 0): 1}, "simple")
    found = {group: describe(node, group) for group in ("", "none", "simple")}
    assert {group: each.error_code for group, each in found.items()} == {
        "": ErrorCode.INVALID_GROUP_ID, "none": ErrorCode.GROUP_ID_NOT_FOUND, "simple": ErrorCode.GROUP_ID_NOT_FOUND}
    assert found["simple"].error_message == "Group simple is not a share group."


def test_a_member_whose_records_cannot_be_written_is_not_in_the_group() -> None:
    node = ShareNode()
    node.logs.error = ErrorCode.NOT_ENOUGH_REPLICAS
    member = Member(node, "m", "orders")
    assert member.join() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert node.group("g") is None
    node.logs.error = None
    assert member.join() == ErrorCode.NONE
    node.logs.error = ErrorCode.NOT_ENOUGH_REPLICAS
    node.advance(46_000)
    assert not group_of(node).is_empty
    node.logs.error = None
    node.advance(2_000)
    assert group_of(node).is_empty
