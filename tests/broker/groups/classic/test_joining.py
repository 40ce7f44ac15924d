"""JoinGroup, static members, and the clocks of a rebalance."""

import pytest

from kraft.broker.groups.classic.group import GroupState
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.join_group_request import JoinGroupRequest
from tests.broker.groups.group_client import (
    REBALANCE_MS,
    SESSION_MS,
    form_group,
    heartbeat,
    join,
    join_new,
    leave,
    subscription,
    sync,
)
from tests.broker.node import Node


@pytest.mark.parametrize("version", range(10))
def test_a_first_member(version: int) -> None:
    """Versions from 4 on make it repeat the request with its id; earlier ones accept it at once."""
    node = Node()
    first = join(node, version=version)
    if version >= 4:
        assert first.response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert (first.response.generation_id, first.response.leader) == (-1, "")
        assert first.response.protocol_name == ("" if version < 7 else None)
        assert first.response.member_id == "client-00000000-0000-0000-0000-000000000001"
        first = join(node, member=first.response.member_id, version=version)
    response = first.response
    assert response.error_code == ErrorCode.NONE
    assert response.generation_id == 1
    assert response.leader == response.member_id
    assert [member.member_id for member in response.members] == [response.member_id]
    assert response.protocol_name == "range"
    assert response.protocol_type == ("consumer" if version >= 7 else None)
    member = node.group("g").members[response.member_id]
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
    assert member.rebalance_timeout_ms == (SESSION_MS if version == 0 else REBALANCE_MS)


@pytest.mark.parametrize(("fields", "error", "member_id"), [
    ({"group": ""}, ErrorCode.INVALID_GROUP_ID, ""),
    ({"group": "", "member": "m"}, ErrorCode.INVALID_GROUP_ID, "m"),
    ({"session_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT, ""),
    ({"session_ms": 1_800_001, "member": "m"}, ErrorCode.INVALID_SESSION_TIMEOUT, "m"),
    ({"member": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID, "nobody"),
    ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""),
    ({"protocols": {}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""),
])
def test_refusals(fields: dict[str, object], error: int, member_id: str) -> None:
    response = join(Node(), **fields).response      # type: ignore[arg-type]
    assert (response.error_code, response.member_id) == (error, member_id)
    assert (response.generation_id, response.protocol_type, response.protocol_name) == (-1, None, None)


def test_where_nobody_coordinates() -> None:
    node = Node(load=False)
    assert join(node).response.error_code == ErrorCode.NOT_COORDINATOR
    node.coordinator.partition_count = None
    assert join(node).response.error_code == ErrorCode.NOT_COORDINATOR
    node.coordinator.partition_count = 3
    for partition in range(3):
        node.coordinator.shards.start_load(partition, 1)
    assert join(node).response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_other_protocols_do_not_get_in() -> None:
    node = Node()
    (member,) = form_group(node, 1)
    assert join(node, protocol_type="connect").response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert join(node, protocols={"sticky": b""}).response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    refused = join(node, member=member.member_id, protocols={"sticky": b""}).response
    assert (refused.error_code, refused.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member.member_id)
    assert node.group("g").state is GroupState.STABLE


def test_the_protocol_that_most_prefer_of_those_that_all_support() -> None:
    node = Node(group_initial_rebalance_delay_ms=3_000)
    offers = [{"a": b"", "b": b"", "x": b""}, {"b": b"", "a": b""}, {"b": b"", "a": b"", "y": b""}]
    pending = [join_new(node, protocols=offer, protocol_type="connect") for offer in offers]
    node.advance(6_000)
    assert {one.response.protocol_name for one in pending} == {"b"}
    assert node.group("g").subscribed_topics is None


def test_of_a_repeated_protocol_the_first_counts() -> None:
    node = Node()
    request = JoinGroupRequest.decode(join(node, protocols={"p": b"1", "q": b"2"}).request.encode(9), 9)
    request.protocols[1].name = "p"
    response = node.call(request.replace(member_id=""), 3)
    assert [member.metadata for member in response.members] == [b"1"]


# -------------------------------------------------------------------- the initial delay

def test_the_first_rebalance_waits_and_waits_longer_while_members_come() -> None:
    node = Node(group_initial_rebalance_delay_ms=3_000)
    first = join_new(node)
    node.advance(2_999)
    assert not first.answered
    second = join_new(node)
    node.advance(1)
    assert not first.answered       # the second one prolonged it by another delay
    node.advance(2_999)
    assert not first.answered
    node.advance(1)
    assert first.response.generation_id == second.response.generation_id == 1
    assert len(first.response.members) == 2


def test_the_first_rebalance_ends_with_the_rebalance_time_out() -> None:
    node = Node(group_initial_rebalance_delay_ms=3_000)
    pending = [join_new(node, rebalance_ms=7_000)]
    while not pending[0].answered:
        node.advance(1_000)
        pending.append(join_new(node, rebalance_ms=7_000))
        assert node.now_ms < 1_700_000_010_000
    assert node.now_ms == 1_700_000_007_000
    assert len(pending[0].response.members) == 7


def test_a_pending_member_holds_nobody_up_for_longer_than_its_session() -> None:
    node = Node(group_initial_rebalance_delay_ms=3_000)
    assert join(node).response.error_code == ErrorCode.MEMBER_ID_REQUIRED
    first = join_new(node)
    node.advance(SESSION_MS + 6_000)
    assert first.response.error_code == ErrorCode.NONE
    assert not node.group("g").pending_join_members


# -------------------------------------------------------------------- rebalances

def test_a_joining_member_makes_all_join_again() -> None:
    node = Node()
    leader, follower = form_group(node, 2)
    newcomer = join_new(node)
    assert not newcomer.answered
    assert heartbeat(node, leader) == ErrorCode.REBALANCE_IN_PROGRESS
    assert heartbeat(node, follower) == ErrorCode.REBALANCE_IN_PROGRESS
    again = [join(node, member=member.member_id) for member in (leader, follower)]
    assert {one.response.generation_id for one in [newcomer, *again]} == {3}
    assert again[0].response.leader == leader.member_id
    assert len(again[0].response.members) == 3
    assert not again[1].response.members


def test_a_member_that_joins_too_late_is_removed_and_another_leads() -> None:
    node = Node()
    leader, follower = form_group(node, 2, session_ms=REBALANCE_MS + 1_000)
    newcomer = join_new(node, session_ms=REBALANCE_MS + 1_000)
    again = join(node, member=follower.member_id, session_ms=REBALANCE_MS + 1_000)
    node.advance(REBALANCE_MS - 1)
    assert not newcomer.answered
    node.advance(1)
    assert again.response.leader == follower.member_id
    assert {member.member_id for member in again.response.members} == \
        {follower.member_id, newcomer.response.member_id}
    assert heartbeat(node, leader) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_stable_follower_that_rejoins_gets_the_same_generation() -> None:
    node = Node()
    leader, follower = form_group(node, 2)
    again = join(node, member=follower.member_id)
    assert (again.response.error_code, again.response.generation_id) == (ErrorCode.NONE, 2)
    assert not again.response.members
    assert node.group("g").state is GroupState.STABLE
    changed = join(node, member=follower.member_id, protocols={"range": subscription("clicks")})
    assert not changed.answered     # another subscription is a rebalance
    assert node.group("g").state is GroupState.PREPARING_REBALANCE
    join(node, member=leader.member_id)
    assert changed.response.generation_id == 3


def test_a_leader_that_joins_again_makes_a_rebalance() -> None:
    node = Node()
    leader, follower = form_group(node, 2)
    again = join(node, member=leader.member_id)
    assert not again.answered
    join(node, member=follower.member_id)
    assert again.response.generation_id == 3


def test_between_join_and_sync_an_unchanged_member_gets_the_same_answer() -> None:
    node = Node()
    first = join_new(node)
    again = join(node, member=first.response.member_id)
    assert again.response == first.response
    changed = join(node, member=first.response.member_id, protocols={"range": subscription("clicks")})
    assert changed.response.generation_id == 2


def test_a_member_that_joins_twice_gets_two_answers() -> None:
    node = Node()
    leader, follower = form_group(node, 2)
    join_new(node)
    one = join(node, member=follower.member_id)
    two = join(node, member=follower.member_id)
    assert one.response.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert not two.answered
    join(node, member=leader.member_id)
    assert two.response.error_code == ErrorCode.NONE


def test_a_new_member_that_vanishes_while_it_waits_is_removed() -> None:
    node = Node(new_member_join_timeout_ms=20_000)
    (leader,) = form_group(node, 1, session_ms=60_000, rebalance_ms=60_000)
    ghost = join_new(node, rebalance_ms=60_000)
    node.advance(20_000)
    assert ghost.response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert ghost.response.member_id == ""
    assert list(node.group("g").members) == [leader.member_id]


def test_the_largest_group() -> None:
    node = Node(group_max_size=2)
    leader, follower = form_group(node, 2)
    full = join(node).response
    assert (full.error_code, full.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert join(node, member=follower.member_id).response.error_code == ErrorCode.NONE
    again = join(node, member=leader.member_id)
    third = join(node)
    assert third.response.error_code == ErrorCode.MEMBER_ID_REQUIRED     # one place is free until the follower is back
    assert not again.answered
    join(node, member=follower.member_id)
    assert join(node, member=third.response.member_id).response.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert again.response.generation_id == 3


# -------------------------------------------------------------------- static members

def test_a_static_member_needs_no_second_request_and_is_named_after_its_instance() -> None:
    node = Node()
    response = join(node, instance="red").response
    assert response.error_code == ErrorCode.NONE
    assert response.member_id.startswith("red-")


@pytest.mark.parametrize("version", [5, 8, 9])
def test_a_static_member_that_comes_back_takes_over_without_a_rebalance(version: int) -> None:
    node = Node()
    first = join(node, instance="red", version=version).response
    assignment = {first.member_id: b"mine"}
    assert sync(node, first, assignments=assignment, group_instance_id="red", version=3,
                protocol_type=None, protocol_name=None).response.assignment == b"mine"
    second = join(node, instance="red", version=version).response
    assert second.error_code == ErrorCode.NONE
    assert second.generation_id == first.generation_id == 1
    assert second.member_id != first.member_id
    if version == 9:
        assert second.skip_assignment
        assert second.leader == second.member_id
        assert [member.group_instance_id for member in second.members] == ["red"]
    else:
        assert second.leader == first.member_id
        assert not second.members
    assert heartbeat(node, first, group_instance_id="red") == ErrorCode.FENCED_INSTANCE_ID
    assert heartbeat(node, first) == ErrorCode.UNKNOWN_MEMBER_ID
    again = sync(node, second, group_instance_id="red", version=3, protocol_type=None, protocol_name=None)
    assert again.response.assignment == b"mine"
    node.kill()
    assert heartbeat(node, second, group_instance_id="red") == 0
    assert heartbeat(node, first, group_instance_id="red") == ErrorCode.FENCED_INSTANCE_ID


def test_a_failed_take_over_changes_nothing() -> None:
    node = Node()
    first = join(node, instance="red").response
    sync(node, first, assignments={first.member_id: b"mine"})
    node.logs.error = ErrorCode.NOT_ENOUGH_REPLICAS
    refused = join(node, instance="red").response
    assert (refused.error_code, refused.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    assert heartbeat(node, first, group_instance_id="red") == 0


def test_a_static_member_that_comes_back_with_another_protocol_makes_a_rebalance() -> None:
    node = Node()
    both = {"range": subscription("orders"), "sticky": subscription("orders")}
    first = join(node, instance="red", protocols=both).response
    sync(node, first, assignments={first.member_id: b"mine"})
    second = join(node, instance="red", protocols={**both, "new": b""})
    assert second.response.generation_id == 1
    third = join(node, instance="red", protocols=dict(reversed(both.items())))
    assert third.response.generation_id == 2
    assert third.response.protocol_name == "sticky"


def test_the_replaced_member_is_fenced() -> None:
    node = Node()
    (dynamic,) = form_group(node, 1)
    old = join(node, instance="red")
    new = join(node, instance="red")
    assert old.response.error_code == ErrorCode.FENCED_INSTANCE_ID
    join(node, member=dynamic.member_id)
    assert new.response.generation_id == 2
    waiting = sync(node, new.response)
    newest = join(node, instance="red")
    assert waiting.response.error_code == ErrorCode.FENCED_INSTANCE_ID
    join(node, member=dynamic.member_id)
    assert newest.response.generation_id == 3


def test_a_static_member_survives_a_rebalance_that_it_misses() -> None:
    node = Node()
    static = join(node, instance="red", session_ms=60_000).response
    sync(node, static, assignments={static.member_id: b"mine"})
    newcomer = join_new(node)
    node.advance(REBALANCE_MS)
    assert newcomer.response.generation_id == 2
    assert newcomer.response.leader == newcomer.response.member_id
    assert {member.group_instance_id for member in newcomer.response.members} == {"red", None}


def test_only_static_members_are_left_and_none_comes() -> None:
    node = Node()
    static = join(node, instance="red", session_ms=60_000).response
    sync(node, static, assignments={static.member_id: b"mine"})
    newcomer = join_new(node)
    leave(node, newcomer.request.member_id)         # type: ignore[attr-defined]
    assert newcomer.response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    node.advance(REBALANCE_MS)
    assert node.group("g").state is GroupState.PREPARING_REBALANCE
    again = join(node, member=static.member_id, instance="red")
    assert again.response.generation_id == 2


# -------------------------------------------------------------------- failures

def test_a_group_that_cannot_be_recorded_does_not_come_to_be() -> None:
    node = Node()
    node.logs.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert join(node).response.error_code == ErrorCode.NOT_COORDINATOR
    assert node.group("g") is None
    node.logs.error = None
    assert join(node).response.error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_an_answer_waits_for_the_record_of_the_group() -> None:
    node = Node(lag=True)
    first = join(node)
    assert not first.answered
    node.commit()
    assert first.response.error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_after_a_kill_members_join_again_with_their_ids_and_a_lost_rebalance_is_forgotten() -> None:
    node = Node()
    leader, follower = form_group(node, 2)
    join_new(node)
    node.kill()
    assert node.group("g").state is GroupState.STABLE
    assert heartbeat(node, leader) == heartbeat(node, follower) == 0
    node.advance(SESSION_MS - 1)
    assert len(node.group("g").members) == 2
    node.advance(1)
    assert node.group("g").state is GroupState.EMPTY
    assert node.group("g").generation_id == 3


def test_a_group_that_is_too_large_when_it_is_loaded_rebalances() -> None:
    node = Node()
    leader, *_ = form_group(node, 3)
    node.config = node.config.__class__(group_max_size=2, group_initial_rebalance_delay_ms=0)
    node.kill()
    assert heartbeat(node, leader) == ErrorCode.REBALANCE_IN_PROGRESS
