"""ConsumerGroupHeartbeat: joining, rebalancing, fencing, leaving, static members, time-outs."""

from typing import Any
from uuid import UUID

import pytest

from kraft.broker.groups.consumer.cluster import ConsumerGroupConfig
from kraft.broker.groups.consumer.member import MemberState
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.list_groups_request import ListGroupsRequest
from tests.broker.groups.consumer.consumer_client import REBALANCE_MS, Member, assignment, describe, form, settle
from tests.broker.groups.group_client import commit, errors_of, form_group, join
from tests.broker.node import Node

SESSION_MS = 45_000


def test_a_member_joins_and_has_all_partitions() -> None:
    node = Node()
    (member,) = form(node, 1, "orders", "clicks")
    assert (member.epoch, member.partitions) == (2, {"orders": list(range(8)), "clicks": list(range(4))})
    assert member.response.heartbeat_interval_ms == 5_000
    assert assignment(member.response) is None      # nothing changed since the last one
    found = describe(node)
    assert (found.group_state, found.group_epoch, found.assignment_epoch, found.assignor_name) == (
        "Stable", 2, 2, "uniform")
    (shown,) = found.members
    assert (shown.member_id, shown.client_id, shown.client_host, shown.member_type) == ("m0", "client", "/127.0.0.1", 1)
    assert [(each.topic_name, each.partitions) for each in shown.assignment.topic_partitions] == [
        ("orders", list(range(8))), ("clicks", list(range(4)))]
    assert shown.target_assignment == shown.assignment
    (group,) = node.call(ListGroupsRequest(types_filter=["consumer"])).groups
    assert (group.group_id, group.group_state, group.protocol_type) == ("g", "Stable", "consumer")


def test_partitions_move_to_a_second_member_once_the_first_gave_them_up() -> None:
    node = Node()
    (first,) = form(node, 1)
    node.advance(1_000)
    second = Member(node, "second", "orders")
    assert second.join() == ErrorCode.NONE
    assert (second.epoch, second.partitions) == (3, {})
    assert second.state.state is MemberState.UNRELEASED_PARTITIONS
    assert first.beat() == ErrorCode.NONE
    assert len(first.partitions["orders"]) == 4
    assert first.epoch == 2                          # it stays in its epoch until it gave the others up
    assert describe(node).group_state == "Reconciling"
    assert second.beat() == ErrorCode.NONE
    assert second.partitions == {}
    assert first.beat() == ErrorCode.NONE
    assert first.epoch == 3
    assert second.beat() == ErrorCode.NONE
    assert sorted(first.partitions["orders"] + second.partitions["orders"]) == list(range(8))
    assert describe(node).group_state == "Stable"


def test_an_assignment_that_the_member_does_not_name_is_repeated() -> None:
    """A late copy of a heartbeat gets a partition that has become free; nobody reads its answer."""
    node = Node()
    (first,) = form(node, 1)
    node.advance(1_000)
    second = Member(node, "second", "orders")
    second.join()
    for _ in range(3):
        first.beat()
    epoch = second.epoch
    second.send(topic_partitions=[])
    assert second.state.epoch == epoch
    assert second.state.assigned
    assert assignment(second.send()) is None
    node.advance(10_000)
    assert second.follow(second.send()) == ErrorCode.NONE
    assert len(second.partitions["orders"]) == 4
    assert second.beat() == ErrorCode.NONE
    node.advance(10_000)
    assert assignment(second.send()) is None


def test_a_second_target_waits_for_the_interval() -> None:
    node = Node()
    first, second = Member(node, "first", "orders"), Member(node, "second", "orders")
    assert first.join() == second.join() == ErrorCode.NONE
    assert (second.epoch, second.partitions) == (2, {})
    assert describe(node).group_state == "Assigning"
    node.advance(999)
    assert node.group("g").target_epoch == 2
    node.advance(1)
    assert node.group("g").target_epoch == 3
    settle(node, first, second)
    assert len(first.partitions["orders"]) == len(second.partitions["orders"]) == 4


@pytest.mark.parametrize(("changes", "error", "words"), [
    ({"group_id": ""}, ErrorCode.INVALID_REQUEST, "GroupId"),
    ({"member_id": ""}, ErrorCode.INVALID_REQUEST, "MemberId"),
    ({"instance_id": ""}, ErrorCode.INVALID_REQUEST, "InstanceId"),
    ({"rack_id": ""}, ErrorCode.INVALID_REQUEST, "RackId"),
    ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST, "RebalanceTimeoutMs"),
    ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST, "TopicPartitions"),
    ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST, "SubscribedTopicNames"),
    ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST, "MemberEpoch"),
    ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST, "InstanceId"),
    ({"server_assignor": "sticky"}, ErrorCode.UNSUPPORTED_ASSIGNOR, "sticky"),
    ({"subscribed_topic_regex": "a("}, ErrorCode.INVALID_REGULAR_EXPRESSION, "a("),
    ({"member_epoch": 5}, ErrorCode.GROUP_ID_NOT_FOUND, "g"),
])
def test_requests_that_are_refused(changes: dict[str, Any], error: ErrorCode, words: str) -> None:
    node = Node()
    assert Member(node, "m", "orders").join(**changes) == error
    member = Member(node, "m", "orders")
    member.join(**changes)
    assert words in member.response.error_message
    assert node.group("g") is None


def test_the_coordinator_names_a_member_in_version_0() -> None:
    node = Node()
    member = Member(node, "", "orders")
    assert member.join(version=0) == ErrorCode.NONE
    assert UUID(member.response.member_id).version is None or member.response.member_id


def test_a_full_group() -> None:
    node = Node(consumer=ConsumerGroupConfig(max_size=1))
    (member,) = form(node, 1)
    other = Member(node, "other", "orders")
    assert other.join() == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert "1 members" in other.response.error_message
    assert member.beat() == ErrorCode.NONE


def test_fencing() -> None:
    node = Node()
    first, _second = form(node, 2)
    assert first.send(member_epoch=first.epoch + 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert first.send(member_epoch=1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert first.send(member_id="nobody").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    previous = first.state.previous_epoch
    assert previous < first.epoch
    assert first.send(member_epoch=previous).error_code == ErrorCode.FENCED_MEMBER_EPOCH    # it says nothing of its own
    assert first.beat(member_epoch=previous) == ErrorCode.NONE          # the answer with the new epoch was lost
    first.partitions = {"clicks": [0]}
    assert first.beat(member_epoch=previous) == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_fenced_member_joins_again_with_epoch_0() -> None:
    """KAFKA-19233."""
    node = Node()
    first, second = form(node, 2)
    had = first.partitions
    assert first.join() == ErrorCode.NONE
    assert first.partitions == had
    settle(node, first, second)
    assert first.partitions == had


def test_leaving() -> None:
    node = Node()
    first, second = form(node, 2)
    assert second.leave() == ErrorCode.NONE
    assert (second.response.member_epoch, second.response.member_id) == (-1, "m1")
    settle(node, first)
    assert first.partitions == {"orders": list(range(8))}
    assert second.leave() == ErrorCode.UNKNOWN_MEMBER_ID
    assert first.leave() == ErrorCode.NONE
    found = describe(node)
    assert (found.group_state, found.members, found.assignment_epoch < found.group_epoch) == ("Empty", [], True)
    assert first.join() == ErrorCode.NONE
    settle(node, first)
    assert first.partitions == {"orders": list(range(8))}


def test_an_unresponsive_member_is_removed() -> None:
    node = Node()
    first, second = form(node, 2)
    for _ in range(9):
        node.advance(SESSION_MS // 9)
        assert first.beat() == ErrorCode.NONE
    assert node.group("g").subscriptions.keys() == {"m0"}
    assert second.beat() == ErrorCode.UNKNOWN_MEMBER_ID
    settle(node, first)
    assert first.partitions == {"orders": list(range(8))}


def test_a_member_that_keeps_what_it_has_to_give_up_is_removed() -> None:
    node = Node()
    (first,) = form(node, 1)
    node.advance(1_000)
    second = Member(node, "second", "orders")
    second.join()
    for _ in range(REBALANCE_MS // 5_000):
        assert first.send().error_code == second.beat() == ErrorCode.NONE
        node.advance(5_000)
    assert first.state.epoch == 0
    assert first.send().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    settle(node, second)
    assert second.partitions == {"orders": list(range(8))}


def test_the_time_to_give_partitions_up_begins_with_each_step() -> None:
    """A member that gives partitions up, and has to give up others at once, has the whole time for those."""
    node = Node()
    (first,) = form(node, 1)
    members = [first]
    for name in ("second", "third"):
        node.advance(1_000)
        members.append(Member(node, name, "orders"))
        assert members[-1].join() == ErrorCode.NONE
        node.advance(1_000)
        if name == "second":
            assert first.beat() == ErrorCode.NONE
            node.advance(20_000)
    assert first.state.state is MemberState.UNREVOKED_PARTITIONS
    assert first.beat() == ErrorCode.NONE               # gives up four, and is to give up one more
    assert first.state.state is MemberState.UNREVOKED_PARTITIONS
    for _ in range(5):
        node.advance(5_000)
        assert first.send().error_code == members[1].beat() == members[2].beat() == ErrorCode.NONE
    node.advance(6_000)
    assert first.member_id not in node.group("g").subscriptions


def test_a_static_member_comes_back_with_another_id_and_nothing_moves() -> None:
    node = Node()
    first = Member(node, "m0", "orders", instance="one")
    other = Member(node, "m1", "orders", instance="two")
    assert first.join() == other.join() == ErrorCode.NONE
    settle(node, first, other)
    had, epoch = first.partitions, node.group("g").epoch
    again = Member(node, "again", "orders", instance="one")
    assert again.join() == ErrorCode.UNRELEASED_INSTANCE_ID
    assert first.leave(-2) == ErrorCode.NONE
    assert first.response.member_epoch == -2
    assert again.join() == ErrorCode.NONE
    assert (again.partitions, node.group("g").epoch) == (had, epoch)
    assert first.beat() == ErrorCode.FENCED_INSTANCE_ID
    assert Member(node, "x", "orders", instance="three").beat(member_epoch=1) == ErrorCode.UNKNOWN_MEMBER_ID
    settle(node, again, other)
    assert again.partitions == had


def test_a_fenced_static_member_joins_again_under_its_id() -> None:
    node = Node()
    member = Member(node, "m", "orders", instance="one")
    assert member.join() == ErrorCode.NONE
    assert member.send(member_epoch=9).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert member.join() == ErrorCode.NONE
    settle(node, member)
    assert member.partitions == {"orders": list(range(8))}


def test_a_static_member_that_stays_away_is_removed() -> None:
    node = Node()
    first = Member(node, "m0", "orders", instance="one")
    other = Member(node, "m1", "orders")
    assert first.join() == other.join() == ErrorCode.NONE
    settle(node, first, other)
    assert first.leave(-2) == ErrorCode.NONE
    for _ in range(10):
        node.advance(5_000)
        assert other.beat() == ErrorCode.NONE
    settle(node, other)
    assert other.partitions == {"orders": list(range(8))}


def test_a_member_changes_its_subscription() -> None:
    node = Node()
    (member,) = form(node, 1)
    node.advance(1_000)
    assert member.beat(subscribed_topic_names=["clicks"]) == ErrorCode.NONE
    settle(node, member)
    assert member.partitions == {"clicks": list(range(4))}


def test_what_a_member_no_longer_subscribes_to_is_given_up_before_the_next_target() -> None:
    """KAFKA-19431."""
    node = Node()
    member = Member(node, "m", "orders", "clicks")
    assert member.join() == ErrorCode.NONE
    assert member.beat(subscribed_topic_names=["clicks"]) == ErrorCode.NONE
    assert node.group("g").target_epoch == 2
    assert member.partitions == {"clicks": list(range(4))}


def test_a_member_without_subscription() -> None:
    """KAFKA-16930."""
    node = Node()
    member = Member(node, "m")
    assert member.join() == ErrorCode.NONE
    settle(node, member)
    assert member.partitions == {}
    assert describe(node).group_state == "Stable"


def test_topics_that_grow_and_vanish() -> None:
    node = Node()
    (member,) = form(node, 1, "orders", "clicks", "missing")
    node.topics.change("orders", node.topics.topics["orders"][0], 10)
    node.topics.change("clicks", None)
    settle(node, member)
    assert member.partitions == {"orders": list(range(10))}


def test_the_preferred_assignor() -> None:
    node = Node()
    members = form(node, 2, "orders", "clicks", assignor="range")
    assert describe(node).assignor_name == "range"
    assert members[0].partitions == {"orders": [0, 1, 2, 3], "clicks": [0, 1]}


def test_a_failed_append_changes_nothing() -> None:
    node = Node()
    node.logs.error = ErrorCode.NOT_ENOUGH_REPLICAS
    member = Member(node, "m", "orders")
    assert member.join() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert node.group("g") is None
    node.logs.error = None
    assert member.join() == ErrorCode.NONE
    node.logs.error = ErrorCode.NOT_ENOUGH_REPLICAS
    node.advance(SESSION_MS + 500)
    assert "m" in node.group("g").subscriptions
    node.logs.error = None
    node.advance(1_000)
    assert node.group("g").is_empty


def test_group_settings() -> None:
    node = Node()
    node.topics.configs["g"] = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "7000",
                                "consumer.assignment.interval.ms": "0"}
    first, second = Member(node, "m0", "orders"), Member(node, "m1", "orders")
    assert first.join() == second.join() == ErrorCode.NONE
    assert first.response.heartbeat_interval_ms == 7_000
    assert node.group("g").target_epoch == 3         # no interval
    node.advance(49_999)
    assert len(node.group("g").subscriptions) == 2
    node.advance(1)
    assert node.group("g").is_empty


def test_regular_expressions() -> None:
    node = Node()
    member = Member(node, "m", regex="or.*s|none")
    assert member.join() == ErrorCode.NONE
    settle(node, member)
    assert member.partitions == {"orders": list(range(8))}
    assert describe(node).members[0].subscribed_topic_regex == "or.*s|none"
    node.topics.change("ors", UUID(int=0xA9), 1)
    node.advance(10_000)
    assert member.beat() == ErrorCode.NONE
    node.advance(1_000)
    assert node.group("g").regexes["or.*s|none"].topics == ("orders", "ors")
    assert member.beat(subscribed_topic_regex="") == ErrorCode.NONE
    assert node.group("g").regexes == {}
    settle(node, member)
    assert member.partitions == {}


def test_flags_in_a_regular_expression() -> None:
    node = Node()
    member = Member(node, "m", regex="(?i)ORD.*|(?-i)CLICKS")
    assert member.join() == ErrorCode.NONE
    settle(node, member)
    assert member.partitions == {"orders": list(range(8))}
    assert member.beat(subscribed_topic_regex="(?x)orders") == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert describe(node).members[0].subscribed_topic_regex == "(?i)ORD.*|(?-i)CLICKS"


def test_kinds_of_groups() -> None:
    node = Node(consumer=ConsumerGroupConfig(migration_policy="disabled"))
    form_group(node, 1, "classic")
    member = Member(node, "m", "orders", group="classic")
    assert member.join() == ErrorCode.GROUP_ID_NOT_FOUND
    assert "not a consumer group" in member.response.error_message
    form(node, 1, group="new")
    assert join(node, "new", protocol_type="connect").response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert describe(node, "classic").error_message == "Group classic is not a consumer group."
    assert errors_of(commit(node, {("orders", 0): 5}, group="simple")) == [0]
    (simple,) = form(node, 1, group="simple")
    assert simple.epoch == 2


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_the_rack_of_a_member_is_stored_and_described(assignor: str) -> None:
    node = Node()
    members = [Member(node, f"m{number}", "orders", assignor=assignor) for number in range(2)]
    assert [each.join(rack_id=rack) for each, rack in zip(members, ("east", None), strict=True)] == [ErrorCode.NONE] * 2
    settle(node, *members)
    for _ in range(2):
        assert {each.member_id: each.rack_id for each in describe(node).members} == {"m0": "east", "m1": None}
        node.kill()
    assert members[0].beat(rack_id="west") == ErrorCode.NONE
    assert {each.member_id: each.rack_id for each in describe(node).members} == {"m0": "west", "m1": None}


def test_a_restart_keeps_everything() -> None:
    node = Node()
    first, second = form(node, 2, "orders", "clicks")
    before = describe(node)
    node.kill()
    assert describe(node) == before
    settle(node, first, second)
    assert describe(node) == before
    node.kill()
    node.advance(SESSION_MS)
    assert node.group("g").is_empty
