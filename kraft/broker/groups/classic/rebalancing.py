"""Transition of a classic group from one generation to the next, and its clocks.

A rebalance waits until every member has joined again, at most for the longest rebalance time-out of the members. The
first rebalance of an empty group instead waits for `group.initial.rebalance.delay.ms`, and longer while members keep
joining. Then the members get their generation, and the same time to sync.
"""

from __future__ import annotations

import functools

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.coordinator.timers import Key
from kraft.broker.groups.classic.group import ClassicGroup, GroupState
from kraft.broker.groups.classic.member import Member
from kraft.broker.groups.group_records import empty_group_value, group_record
from kraft.broker.groups.shard import GroupShard
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from kraft.protocol.messages.sync_group_response import SyncGroupResponse

# When the record of an empty group could not be written, the group stays in its join phase and tries again after this
# time.
EMPTY_RETRY_MS = 1_000


def session_key(group: ClassicGroup, member_id: str) -> Key:
    return "session", group.group_id, member_id


def join_key(group: ClassicGroup) -> Key:
    return "join", group.group_id


def sync_key(group: ClassicGroup) -> Key:
    return "sync", group.group_id


# -------------------------------------------------------------------- answers

def join_response(group: ClassicGroup, member_id: str, api_version: int) -> JoinGroupResponse:
    """Return the answer for a member of the current generation; the leader gets the metadata of all members."""
    members = []
    if group.leader_id == member_id:
        assert group.protocol_name is not None
        members = [JoinGroupResponseMember(member_id=member.member_id, group_instance_id=member.group_instance_id,
                                           metadata=member.metadata(group.protocol_name))
                   for member in group.members.values()]
    name = group.protocol_name
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name="" if name is None and api_version < 7 else name,
        leader=group.leader_id or "",
        skip_assignment=False,
        member_id=member_id,
        members=members,
    )


def sync_response(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    """Return the assignment of a member of a stable group."""
    return SyncGroupResponse(error_code=ErrorCode.NONE, protocol_type=group.protocol_type,
                             protocol_name=group.protocol_name, assignment=member.assignment)


# -------------------------------------------------------------------- the steps of a rebalance

def rebalance(state: GroupShard, group: ClassicGroup) -> None:
    """Begin a rebalance after a change of members, or end the one in progress if no member is missing now.

    Raises RefusedError when the group is empty now and its record could not be written.
    """
    if group.can_rebalance:
        prepare_rebalance(state, group)
    else:
        complete_join_if_ready(state, group)


def prepare_rebalance(state: GroupShard, group: ClassicGroup) -> None:
    """Begin a rebalance. Raises like `rebalance`."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        reset_assignments(state, group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync_members.clear()
    state.shard.timers.cancel(sync_key(group))
    initial = group.state is GroupState.EMPTY
    group.move_to(GroupState.PREPARING_REBALANCE, state.now_ms)
    if initial:
        delay_ms = state.config.group_initial_rebalance_delay_ms
        _wait_for_members(state, group.group_id, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
    elif group.has_all_members_joined:
        complete_join(state, group)
    else:
        state.shard.after(join_key(group), group.rebalance_timeout_ms,
                          functools.partial(_join_time_over, state, group.group_id))


def complete_join_if_ready(state: GroupShard, group: ClassicGroup) -> None:
    """End the join phase if all members have joined; an initial rebalance ends by its clock only. Raises like
    `rebalance`.
    """
    if (group.state is GroupState.PREPARING_REBALANCE and group.previous_state is not GroupState.EMPTY
            and group.has_all_members_joined):
        complete_join(state, group)


def complete_join(state: GroupShard, group: ClassicGroup) -> None:
    """End the join phase with the members that joined. Raises like `rebalance`.

    Dynamic members that did not join are removed; static ones stay until their session ends. When only such are left,
    the group continues to wait.
    """
    state.shard.timers.cancel(join_key(group))
    for member in list(group.members.values()):
        if member.awaiting_join is None and member.group_instance_id is None:
            group.remove(member.member_id)
            state.shard.timers.cancel(session_key(group, member.member_id))
    if not group.members:
        _become_empty(state, group)
    elif not group.elect_joined_leader():
        state.shard.after(join_key(group), group.rebalance_timeout_ms,
                          functools.partial(_join_time_over, state, group.group_id))
    else:
        _begin_generation(state, group)


def _become_empty(state: GroupShard, group: ClassicGroup) -> None:
    try:
        state.shard.write([group_record(group.group_id, empty_group_value(group, state.now_ms), state.now_ms)])
    except RefusedError:
        state.shard.after(join_key(group), EMPTY_RETRY_MS, functools.partial(_join_time_over, state, group.group_id))
        raise


def _begin_generation(state: GroupShard, group: ClassicGroup) -> None:
    group.begin_generation(state.now_ms)
    for member in group.members.values():
        if (answer := group.take_join(member)) is not None:
            state.shard.reply(answer, join_response(group, member.member_id, answer.context.api_version))
        restart_session(state, group, member)
        member.is_new = False
        group.pending_sync_members[member.member_id] = None
    state.shard.after(sync_key(group), group.rebalance_timeout_ms,
                      functools.partial(_sync_time_over, state, group.group_id, group.generation_id))


def reset_assignments(state: GroupShard, group: ClassicGroup, error: ErrorCode) -> None:
    """Cancel the generation: no member keeps an assignment, and members that wait for one get `error`."""
    for member in group.members.values():
        member.assignment = b""
        if member.awaiting_sync is not None:
            answer, member.awaiting_sync = member.awaiting_sync, None
            state.shard.refuse(answer, error)
            restart_session(state, group, member)


def give_assignments(state: GroupShard, group: ClassicGroup) -> None:
    """Send the assignments to the waiting members of a stable group."""
    for member in group.members.values():
        if member.awaiting_sync is not None:
            answer, member.awaiting_sync = member.awaiting_sync, None
            state.shard.reply(answer, sync_response(group, member))
            restart_session(state, group, member)


def member_synced(state: GroupShard, group: ClassicGroup, member_id: str) -> None:
    """Note the SyncGroup of a member; after the last one, the clock of the sync phase stops."""
    group.pending_sync_members.pop(member_id, None)
    if not group.pending_sync_members:
        state.shard.timers.cancel(sync_key(group))


def remove_member(state: GroupShard, group: ClassicGroup, member_id: str) -> None:
    """Remove a member, or an assigned id, and refuse its parked requests. The caller starts the rebalance."""
    member = group.members.get(member_id)
    if member is not None:
        state.refuse_parked(group, member, ErrorCode.UNKNOWN_MEMBER_ID, member_id="")
    group.remove(member_id)
    state.shard.timers.cancel(session_key(group, member_id))


# -------------------------------------------------------------------- clocks

def restart_session(state: GroupShard, group: ClassicGroup, member: Member, timeout_ms: int | None = None) -> None:
    """Restart the session of a member that showed that it is alive."""
    start_session(state, group, member.member_id, member.session_timeout_ms if timeout_ms is None else timeout_ms)


def start_session(state: GroupShard, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
    """Start the session of a member, or of an assigned id."""
    state.shard.after(session_key(group, member_id), timeout_ms,
                      functools.partial(_session_over, state, group.group_id, member_id))


def _session_over(state: GroupShard, group_id: str, member_id: str) -> None:
    """Remove a member that was unresponsive for too long."""
    group = state.classic_group(group_id)
    if group is None:
        return
    member = group.members.get(member_id)
    pending = member_id in group.pending_join_members
    if not pending and (member is None or member.has_satisfied_heartbeat):
        return
    remove_member(state, group, member_id)
    if group.state is GroupState.PREPARING_REBALANCE:
        if group.has_all_members_joined:
            _quietly_complete_join(state, group)
    elif not pending and group.can_rebalance:
        _quietly_prepare(state, group)


def _join_time_over(state: GroupShard, group_id: str) -> None:
    group = state.classic_group(group_id)
    if group is not None and group.state is GroupState.PREPARING_REBALANCE:
        _quietly_complete_join(state, group)


def _sync_time_over(state: GroupShard, group_id: str, generation_id: int) -> None:
    """Remove the members that have not synced."""
    group = state.classic_group(group_id)
    if (group is None or group.generation_id != generation_id or not group.pending_sync_members
            or group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)):
        return
    for member_id in list(group.pending_sync_members):
        remove_member(state, group, member_id)
    _quietly_prepare(state, group)


def _wait_for_members(state: GroupShard, group_id: str, delay_ms: int, remaining_ms: int) -> None:
    """Wait `delay_ms` for members of a new group, and again while they join, `remaining_ms` at most."""
    group = state.classic_group(group_id)
    assert group is not None
    state.shard.after(join_key(group), delay_ms,
                      functools.partial(_initial_delay_over, state, group_id, delay_ms, remaining_ms))


def _initial_delay_over(state: GroupShard, group_id: str, delay_ms: int, remaining_ms: int) -> None:
    group = state.classic_group(group_id)
    if group is None or group.state is not GroupState.PREPARING_REBALANCE:
        return
    if group.new_member_added and remaining_ms != 0:
        group.new_member_added = False
        next_delay_ms = min(state.config.group_initial_rebalance_delay_ms, remaining_ms)
        _wait_for_members(state, group_id, next_delay_ms, max(remaining_ms - delay_ms, 0))
    else:
        _quietly_complete_join(state, group)


def _quietly_complete_join(state: GroupShard, group: ClassicGroup) -> None:
    """Call `complete_join` from a clock: no request waits for the refusal, and the group has armed its next try."""
    try:
        complete_join(state, group)
    except RefusedError:
        assert join_key(group) in state.shard.timers


def _quietly_prepare(state: GroupShard, group: ClassicGroup) -> None:
    """Call `prepare_rebalance` from a clock, see `_quietly_complete_join`."""
    try:
        prepare_rebalance(state, group)
    except RefusedError:
        assert join_key(group) in state.shard.timers
