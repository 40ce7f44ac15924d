"""SyncGroup, Heartbeat, LeaveGroup."""

import pytest

from kraft.broker.groups.classic.group import GroupState
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.heartbeat_request import HeartbeatRequest
from kraft.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kraft.protocol.messages.sync_group_request import SyncGroupRequest
from tests.broker.groups.group_client import (
    REBALANCE_MS,
    SESSION_MS,
    commit,
    errors_of,
    form_group,
    heartbeat,
    join,
    join_new,
    leave,
    sync,
)
from tests.broker.node import Node


def test_followers_wait_for_the_leader() -> None:
    node = Node(group_initial_rebalance_delay_ms=1_000)
    pending = [join_new(node), join_new(node)]
    node.advance(5_000)
    leader, follower = (one.response for one in pending)
    waiting = sync(node, follower)
    assert not waiting.answered
    assert heartbeat(node, follower) == 0
    committed = commit(node, {("orders", 0): 1}, member=follower.member_id, generation=1)
    assert errors_of(committed) == [ErrorCode.REBALANCE_IN_PROGRESS]
    brought = sync(node, leader, assignments={leader.member_id: b"L", "nobody": b"N"})
    assert brought.response.assignment == b"L"
    assert (brought.response.protocol_type, brought.response.protocol_name) == ("consumer", "range")
    assert waiting.response.error_code == ErrorCode.NONE
    assert waiting.response.assignment == b""       # the leader forgot this one
    assert node.group("g").state is GroupState.STABLE
    assert sync(node, leader).response.assignment == b"L"


def test_a_session_starts_again_with_the_answer_to_a_sync() -> None:
    """A member sends no heartbeat while it waits for its assignment; its whole session begins with the answer."""
    node = Node(group_initial_rebalance_delay_ms=1_000)
    pending = [join_new(node), join_new(node)]
    node.advance(2_000)
    leader, follower = (one.response for one in pending)
    waiting = sync(node, follower)
    node.advance(SESSION_MS - 1_000)
    sync(node, leader, assignments={follower.member_id: b"F"})
    assert waiting.response.assignment == b"F"
    node.advance(SESSION_MS - 1_000)
    assert heartbeat(node, follower) == 0


def test_the_assignment_is_sent_when_its_record_is_committed() -> None:
    node = Node(lag=True)
    first = join(node, version=3)
    node.commit()
    node.advance(0)
    synced = sync(node, first.response, assignments={first.response.member_id: b"A"}, version=3,
                  protocol_type=None, protocol_name=None)
    assert not synced.answered
    node.commit()
    assert synced.response.assignment == b"A"


@pytest.mark.parametrize(("changes", "error"), [
    ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
    ({"protocol_type": None}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ({"protocol_name": None}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ({"generation_id": 2}, ErrorCode.ILLEGAL_GENERATION),
    ({"generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
    ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ({"group_id": "nothing"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ({"group_instance_id": "red"}, ErrorCode.UNKNOWN_MEMBER_ID),
])
def test_sync_refusals(changes: dict[str, object], error: int) -> None:
    node = Node()
    joined = join_new(node).response
    assert sync(node, joined, **changes).response.error_code == error     # type: ignore[arg-type]
    assert node.group("g").state is GroupState.COMPLETING_REBALANCE


def test_sync_of_an_empty_group_and_during_a_rebalance() -> None:
    node = Node()
    leader, follower = form_group(node, 2)
    join_new(node)
    assert sync(node, follower).response.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    leave(node, leader.member_id, follower.member_id)
    commit(node, {("orders", 0): 1}, group="simple")
    assert sync(node, follower, group="simple").response.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_ends_the_sync_of_all() -> None:
    node = Node(group_initial_rebalance_delay_ms=1_000)
    pending = [join_new(node), join_new(node)]
    node.advance(5_000)
    waiting = sync(node, pending[1].response)
    join_new(node)
    assert waiting.response.error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_second_sync_of_a_member_answers_the_first() -> None:
    node = Node(group_initial_rebalance_delay_ms=1_000)
    pending = [join_new(node), join_new(node)]
    node.advance(5_000)
    one = sync(node, pending[1].response)
    two = sync(node, pending[1].response)
    assert one.response.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert not two.answered


@pytest.mark.parametrize(("code", "error"), [
    (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
    (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
])
def test_an_assignment_that_cannot_be_recorded_fails_for_all_members(code: ErrorCode, error: int) -> None:
    node = Node(group_initial_rebalance_delay_ms=1_000)
    pending = [join_new(node), join_new(node)]
    node.advance(5_000)
    leader, follower = (one.response for one in pending)
    waiting = sync(node, follower)
    node.logs.error = code
    failed = sync(node, leader, assignments={leader.member_id: b"L", follower.member_id: b"F"})
    assert failed.response.error_code == waiting.response.error_code == error
    assert failed.response.assignment == b""
    assert node.group("g").state is GroupState.PREPARING_REBALANCE
    node.logs.error = None
    again = [join(node, member=member.member_id) for member in (leader, follower)]
    assert {one.response.generation_id for one in again} == {2}


def test_a_member_that_syncs_too_late_is_removed() -> None:
    node = Node(group_initial_rebalance_delay_ms=1_000)
    pending = [join_new(node, session_ms=60_000) for _ in range(2)]
    node.advance(5_000)
    leader, follower = (one.response for one in pending)
    brought = sync(node, leader, assignments={leader.member_id: b"L"})
    assert brought.response.error_code == ErrorCode.NONE
    node.advance(REBALANCE_MS)
    assert heartbeat(node, follower) == ErrorCode.UNKNOWN_MEMBER_ID
    assert heartbeat(node, leader) == ErrorCode.REBALANCE_IN_PROGRESS


def test_if_the_leader_does_not_sync_in_time_the_others_continue() -> None:
    node = Node(group_initial_rebalance_delay_ms=1_000)
    pending = [join_new(node, session_ms=60_000) for _ in range(2)]
    node.advance(5_000)
    waiting = sync(node, pending[1].response)
    node.advance(REBALANCE_MS)
    assert waiting.response.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    again = join(node, member=pending[1].response.member_id)
    assert again.response.leader == pending[1].response.member_id


# -------------------------------------------------------------------- Heartbeat

@pytest.mark.parametrize(("changes", "error"), [
    ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID), ({"group_id": "nothing"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID), ({"generation_id": 7}, ErrorCode.ILLEGAL_GENERATION),
    ({"group_instance_id": "red"}, ErrorCode.UNKNOWN_MEMBER_ID), ({}, ErrorCode.NONE),
])
def test_heartbeats(changes: dict[str, object], error: int) -> None:
    node = Node()
    (member,) = form_group(node, 1)
    assert heartbeat(node, member, **changes) == error    # type: ignore[arg-type]


def test_heartbeats_keep_a_member_and_silence_removes_it() -> None:
    node = Node()
    leader, follower = form_group(node, 2)
    for _ in range(5):
        node.advance(SESSION_MS - 1)
        if len(node.group("g").members) == 2:
            heartbeat(node, leader)
            heartbeat(node, follower)
    assert len(node.group("g").members) == 2
    node.advance(SESSION_MS - 1)
    heartbeat(node, leader)
    node.advance(1)
    assert list(node.group("g").members) == [leader.member_id]
    assert heartbeat(node, leader) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_coordinator_that_loads_does_not_frighten_members() -> None:
    node = Node(load=False)
    for partition in range(3):
        node.coordinator.shards.start_load(partition, 1)
    assert node.call(HeartbeatRequest(group_id="g", member_id="m", generation_id=1)).error_code == ErrorCode.NONE
    answer = node.call(SyncGroupRequest(group_id="g", member_id="m", generation_id=1), 3)
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


# -------------------------------------------------------------------- LeaveGroup

@pytest.mark.parametrize("version", range(6))
def test_leaving(version: int) -> None:
    node = Node()
    (member,) = form_group(node, 1)
    if version < 3:
        request = LeaveGroupRequest(group_id="g", member_id=member.member_id)
        assert node.call(request, version).error_code == ErrorCode.NONE
        assert node.call(request, version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert node.call(request.replace(group_id="nothing"), version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    else:
        request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member.member_id)])
        assert [one.error_code for one in node.call(request, version).members] == [ErrorCode.NONE]
        again = node.call(request, version)
        assert again.error_code == ErrorCode.NONE
        assert [one.error_code for one in again.members] == [ErrorCode.UNKNOWN_MEMBER_ID]
        unknown = node.call(request.replace(group_id="nothing"), version)
        assert unknown.error_code == ErrorCode.NONE
        assert [one.error_code for one in unknown.members] == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert node.group("g").state is GroupState.EMPTY
    assert node.group("g").generation_id == 2
    assert node.call(LeaveGroupRequest(group_id=""), version).error_code == ErrorCode.INVALID_GROUP_ID


def test_leaving_together_is_one_rebalance_and_each_has_its_result() -> None:
    node = Node()
    members = form_group(node, 3)
    static = join(node, instance="red")
    for member in members:
        join(node, member=member.member_id)
    left = node.call(LeaveGroupRequest(group_id="g", members=[
        MemberIdentity(member_id=members[1].member_id),
        MemberIdentity(member_id="", group_instance_id="red"),
        MemberIdentity(member_id="", group_instance_id="blue"),
        MemberIdentity(member_id=""),
        MemberIdentity(member_id="nobody"),
        MemberIdentity(member_id=members[2].member_id, group_instance_id="red"),
    ]))
    assert [one.error_code for one in left.members] == [
        *[ErrorCode.NONE] * 2, *[ErrorCode.UNKNOWN_MEMBER_ID] * 4]
    assert static.response.error_code == ErrorCode.NONE
    assert set(node.group("g").members) == {members[0].member_id, members[2].member_id}


def test_a_pending_member_leaves() -> None:
    node = Node()
    (member,) = form_group(node, 1)
    pending = join(node).response.member_id
    again = join(node, member=member.member_id)
    assert not again.answered
    assert leave(node, pending).members[0].error_code == ErrorCode.NONE
    assert again.response.error_code == ErrorCode.NONE


def test_a_waiting_member_that_is_removed_gets_an_answer() -> None:
    node = Node(group_initial_rebalance_delay_ms=1_000)
    pending = [join_new(node), join_new(node)]
    node.advance(5_000)
    waiting = sync(node, pending[1].response)
    leave(node, pending[1].response.member_id)
    assert waiting.response.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_that_is_empty_but_cannot_say_so_tries_again() -> None:
    node = Node()
    (member,) = form_group(node, 1)
    node.logs.error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert leave(node, member.member_id).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert node.group("g").state is GroupState.PREPARING_REBALANCE
    node.advance(3_500)
    assert node.group("g").generation_id == 1
    node.logs.error = None
    node.advance(1_000)
    assert node.group("g").state is GroupState.EMPTY
    node.kill()
    assert node.group("g").state is GroupState.EMPTY
    assert node.group("g").generation_id == 2


def test_resigning_answers_everybody() -> None:
    node = Node(group_initial_rebalance_delay_ms=1_000)
    pending = [join_new(node), join_new(node)]
    node.advance(5_000)
    waiting = sync(node, pending[1].response)
    joining = join_new(node, group="other")
    for partition in range(3):
        node.coordinator.shards.resign(partition)
    assert waiting.response.error_code == ErrorCode.NOT_COORDINATOR
    assert joining.response.error_code == ErrorCode.NOT_COORDINATOR
    assert joining.response.member_id == joining.request.member_id      # type: ignore[attr-defined]
    assert node.coordinator.deadline_ms is None
