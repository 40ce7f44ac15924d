"""Handling of SyncGroup, Heartbeat and LeaveGroup."""

from __future__ import annotations

from kraft.broker.coordinator.answer import Answer
from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.groups.classic.group import ClassicGroup, GroupState
from kraft.broker.groups.classic.rebalancing import (
    complete_join_if_ready,
    give_assignments,
    member_synced,
    rebalance,
    remove_member,
    reset_assignments,
    restart_session,
    sync_response,
)
from kraft.broker.groups.group_records import group_record, stable_group_value
from kraft.broker.groups.shard import GroupShard
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.heartbeat_request import HeartbeatRequest
from kraft.protocol.messages.heartbeat_response import HeartbeatResponse
from kraft.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kraft.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from kraft.protocol.messages.sync_group_request import SyncGroupRequest
from kraft.protocol.messages.sync_group_response import SyncGroupResponse

LAST_VERSION_OF_ONE_LEAVER = 2


# -------------------------------------------------------------------- SyncGroup

def sync(state: GroupShard, request: SyncGroupRequest, answer: Answer[SyncGroupResponse]) -> None:
    """Give a member its assignment. It waits until the leader sent it and its record is committed.

    Raises RefusedError for a member that may not sync; nothing changed then.
    """
    group = state.classic_group(request.group_id)
    if group is None or group.state is GroupState.EMPTY:
        raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID)
    group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation_id:
        raise RefusedError(ErrorCode.ILLEGAL_GENERATION)
    if (_contradicts(request.protocol_type, group.protocol_type)
            or _contradicts(request.protocol_name, group.protocol_name)):
        raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is GroupState.PREPARING_REBALANCE:
        raise RefusedError(ErrorCode.REBALANCE_IN_PROGRESS)
    member = group.members[request.member_id]
    member_synced(state, group, request.member_id)
    if group.state is GroupState.STABLE:
        state.shard.reply(answer, sync_response(group, member))
        return
    before, member.awaiting_sync = member.awaiting_sync, answer
    if before is not None:
        state.shard.refuse(before, ErrorCode.REBALANCE_IN_PROGRESS)     # of two requests the later one counts
    if group.leader_id == request.member_id:
        _store_assignments(state, group, request)


def _contradicts(said: str | None, known: str | None) -> bool:
    return said is not None and known is not None and said != known


def _store_assignments(state: GroupShard, group: ClassicGroup, request: SyncGroupRequest) -> None:
    """Store the assignments of the leader: with their record the group is stable."""
    assignments = {said.member_id: said.assignment for said in request.assignments}
    value = stable_group_value(group, assignments, state.now_ms)
    try:
        state.shard.write([group_record(group.group_id, value, state.now_ms)])
    except RefusedError as refused:
        # All waiting members get the error and have to join again.
        reset_assignments(state, group, refused.error)
        rebalance(state, group)
        return
    give_assignments(state, group)


# -------------------------------------------------------------------- Heartbeat

def heartbeat(state: GroupShard, request: HeartbeatRequest, answer: Answer[HeartbeatResponse]) -> None:
    """Extend a session. Raises RefusedError for unknown members, other generations, and members that must join
    again."""
    group = state.classic_group(request.group_id)
    if group is None:
        raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID)
    group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation_id:
        raise RefusedError(ErrorCode.ILLEGAL_GENERATION)
    restart_session(state, group, group.members[request.member_id])
    if group.state is GroupState.PREPARING_REBALANCE:
        raise RefusedError(ErrorCode.REBALANCE_IN_PROGRESS)
    state.shard.reply(answer, HeartbeatResponse(error_code=ErrorCode.NONE))


# -------------------------------------------------------------------- LeaveGroup

def leavers(request: LeaveGroupRequest, api_version: int) -> list[MemberIdentity]:
    """Return the leaving members: versions up to 2 name one."""
    if api_version > LAST_VERSION_OF_ONE_LEAVER:
        return request.members
    return [MemberIdentity(member_id=request.member_id, group_instance_id=None, reason=None)]


def leave_response(results: list[MemberResponse], api_version: int) -> LeaveGroupResponse:
    """Return the answer. In versions that name one member, its error is the error of the whole."""
    if api_version > LAST_VERSION_OF_ONE_LEAVER:
        return LeaveGroupResponse(error_code=ErrorCode.NONE, members=results)
    return LeaveGroupResponse(error_code=results[0].error_code, members=[])


def leave(state: GroupShard, request: LeaveGroupRequest, answer: Answer[LeaveGroupResponse]) -> None:
    """Remove leaving members, each with its own result, and rebalance once for all.

    Raises RefusedError when the record of a group that is empty now could not be written: the members are removed, and
    the group tries again by itself.
    """
    members = leavers(request, answer.context.api_version)
    group = state.classic_group(request.group_id)
    if group is None:
        results = [_left(member, ErrorCode.UNKNOWN_MEMBER_ID) for member in members]
        state.shard.reply(answer, leave_response(results, answer.context.api_version))
        return
    results = [_leave_one(state, group, member) for member in members]
    if any(result.error_code == ErrorCode.NONE for result in results):
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            rebalance(state, group)
        else:
            complete_join_if_ready(state, group)
    state.shard.reply(answer, leave_response(results, answer.context.api_version))


def _left(member: MemberIdentity, error: ErrorCode) -> MemberResponse:
    return MemberResponse(member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=error)


def _leave_one(state: GroupShard, group: ClassicGroup, leaver: MemberIdentity) -> MemberResponse:
    """Remove one member. A static member may be named by its instance alone: that is how an operator removes it."""
    if not leaver.member_id:
        known = group.static_members.get(leaver.group_instance_id) if leaver.group_instance_id is not None else None
        if known is None:
            return _left(leaver, ErrorCode.UNKNOWN_MEMBER_ID)
        remove_member(state, group, known)
    elif leaver.member_id in group.pending_join_members:
        remove_member(state, group, leaver.member_id)
    else:
        try:
            group.check_member(leaver.member_id, leaver.group_instance_id)
        except RefusedError as refused:
            return _left(leaver, refused.error)
        remove_member(state, group, leaver.member_id)
    return _left(leaver, ErrorCode.NONE)
