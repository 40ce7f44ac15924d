"""Handling of JoinGroup."""

from __future__ import annotations

from kraft.broker.coordinator.answer import Answer
from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.groups.classic.group import ClassicGroup, GroupState
from kraft.broker.groups.classic.member import Member, Protocols, protocols_of
from kraft.broker.groups.classic.rebalancing import (
    complete_join_if_ready,
    join_response,
    prepare_rebalance,
    rebalance,
    remove_member,
    restart_session,
    session_key,
    start_session,
)
from kraft.broker.groups.group_records import group_record, new_group_value, stable_group_value
from kraft.broker.groups.shard import GroupShard
from kraft.broker.groups.share.group import ShareGroup
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.join_group_request import JoinGroupRequest
from kraft.protocol.messages.join_group_response import JoinGroupResponse

FIRST_VERSION_THAT_KNOWS_ITS_ID = 4     # from here on a new member must come back with the id that it is given
FIRST_VERSION_THAT_SKIPS_ASSIGNMENT = 9


def refusal(member_id: str, api_version: int, error: ErrorCode) -> JoinGroupResponse:
    """Return the response for `error`."""
    return JoinGroupResponse(error_code=error, generation_id=-1, protocol_type=None,
                             protocol_name="" if api_version < 7 else None, leader="", skip_assignment=False,
                             member_id=member_id, members=[])


def join(state: GroupShard, request: JoinGroupRequest, answer: Answer[JoinGroupResponse]) -> None:
    """Let a member join. The answer waits for the rebalance unless nothing changed or it is a refusal.

    Raises RefusedError when the record of a new group, or of a replaced static member, could not be written; then
    nothing changed.
    """
    group = _group_to_join(state, request, answer)
    if group is None:
        return
    protocols = protocols_of(request.protocols)
    if not _accepts(state, group, request.member_id):
        remove_member(state, group, request.member_id)
        _refuse(state, answer, "", ErrorCode.GROUP_MAX_SIZE_REACHED)
        complete_join_if_ready(state, group)    # the others need not wait for this member
    elif not group.supports(request.protocol_type, protocols):
        _refuse(state, answer, request.member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    elif request.member_id:
        _join_known(state, group, request, protocols, answer)
    elif request.group_instance_id is not None:
        _join_static(state, group, request, protocols, answer)
    else:
        _join_dynamic(state, group, request, protocols, answer)


def _refuse(state: GroupShard, answer: Answer[JoinGroupResponse], member_id: str, error: ErrorCode) -> None:
    state.shard.reply(answer, refusal(member_id, answer.context.api_version, error))


def _group_to_join(state: GroupShard, request: JoinGroupRequest,
                   answer: Answer[JoinGroupResponse]) -> ClassicGroup | None:
    """Return the group, created if both it and the member are new; None when the request was refused."""
    group_id = request.group_id
    group = state.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        return group
    records = []
    if group is not None:
        if not group.is_empty or isinstance(group, ShareGroup):
            _refuse(state, answer, "", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            return None
        records = state.deletion_records(group_id)
    if request.member_id:
        _refuse(state, answer, request.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        return None
    state.shard.write([*records, group_record(group_id, new_group_value(state.now_ms), state.now_ms)])
    return state.classic_group(group_id)


def _accepts(state: GroupShard, group: ClassicGroup, member_id: str) -> bool:
    """Return whether `group.max.size` leaves room for this member."""
    limit = state.config.group_max_size
    member = group.members.get(member_id)
    if group.state is GroupState.EMPTY:
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        return (member is not None and member.awaiting_join is not None) or group.awaiting_join_count < limit
    return member is not None or len(group.members) < limit


def _new_member_id(state: GroupShard, prefix: str) -> str:
    return f"{prefix}-{state.environment.new_uuid()}"


def _join_dynamic(state: GroupShard, group: ClassicGroup, request: JoinGroupRequest, protocols: Protocols,
                  answer: Answer[JoinGroupResponse]) -> None:
    """Join a new member. Newer clients first get their id, so that a client that never receives it leaves no ghost
    member."""
    member_id = _new_member_id(state, answer.context.client_id)
    if answer.context.api_version < FIRST_VERSION_THAT_KNOWS_ITS_ID:
        _add(state, group, request, member_id, protocols, answer)
        return
    group.pending_join_members[member_id] = None
    start_session(state, group, member_id, request.session_timeout_ms)
    _refuse(state, answer, member_id, ErrorCode.MEMBER_ID_REQUIRED)


def _join_static(state: GroupShard, group: ClassicGroup, request: JoinGroupRequest, protocols: Protocols,
                 answer: Answer[JoinGroupResponse]) -> None:
    """Join a static member without an id: a new one, or the successor of a known one."""
    assert request.group_instance_id is not None
    member_id = _new_member_id(state, request.group_instance_id)
    old_id = group.static_members.get(request.group_instance_id)
    if old_id is None:
        _add(state, group, request, member_id, protocols, answer)
        return
    old = group.members[old_id]
    if group.state is GroupState.STABLE and _protocol_stays(group, old, protocols):
        _succeed_in_stable_group(state, group, request, old, member_id, protocols, answer)
        return
    state.refuse_parked(group, old, ErrorCode.FENCED_INSTANCE_ID)
    state.shard.timers.cancel(session_key(group, old_id))
    new = group.replace_static(old, member_id)
    restart_session(state, group, new)
    group.update(new, protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
    group.park_join(new, answer)
    if group.state is GroupState.COMPLETING_REBALANCE:
        prepare_rebalance(state, group)
    elif group.state is GroupState.STABLE:
        rebalance(state, group)
    else:
        complete_join_if_ready(state, group)


def _protocol_stays(group: ClassicGroup, member: Member, protocols: Protocols) -> bool:
    """Return whether the group would select the same protocol if `member` supported `protocols`."""
    before = member.protocols
    group.update(member, protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
    stays = group.select_protocol() == group.protocol_name
    group.update(member, before, member.rebalance_timeout_ms, member.session_timeout_ms)
    return stays


def _succeed_in_stable_group(state: GroupShard, group: ClassicGroup, request: JoinGroupRequest, old: Member,
                             member_id: str, protocols: Protocols, answer: Answer[JoinGroupResponse]) -> None:
    """Give a static member's assignment to its successor; the other members notice nothing."""
    leader_before = group.leader_id
    assert group.protocol_name is not None
    value = stable_group_value(group, {m.member_id: m.assignment for m in group.members.values()}, state.now_ms)
    for recorded in value.members:
        if recorded.member_id == old.member_id:
            recorded.member_id = member_id
            recorded.subscription = dict(protocols)[group.protocol_name]
            recorded.rebalance_timeout = request.rebalance_timeout_ms
            recorded.session_timeout = request.session_timeout_ms
    if value.leader == old.member_id:
        value.leader = member_id
    state.shard.write([group_record(group.group_id, value, state.now_ms)])
    state.refuse_parked(group, old, ErrorCode.FENCED_INSTANCE_ID)
    state.shard.timers.cancel(session_key(group, old.member_id))
    group.pending_sync_members.pop(old.member_id, None)
    member = group.members[member_id]
    group.update(member, protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
    restart_session(state, group, member)
    response = join_response(group, member_id, answer.context.api_version)
    if answer.context.api_version >= FIRST_VERSION_THAT_SKIPS_ASSIGNMENT:
        response.skip_assignment = group.leader_id == member_id
    else:
        # A client that cannot skip the assignment must not believe that it leads: it would assign again.
        response.members = []
        response.leader = leader_before or ""
    state.shard.reply(answer, response)


def _join_known(state: GroupShard, group: ClassicGroup, request: JoinGroupRequest, protocols: Protocols,
                answer: Answer[JoinGroupResponse]) -> None:
    """Join a member that sends its id."""
    member_id = request.member_id
    if member_id in group.pending_join_members:
        if request.group_instance_id is not None:
            _refuse(state, answer, member_id, ErrorCode.UNKNOWN_SERVER_ERROR)   # such ids are for dynamic members only
        else:
            _add(state, group, request, member_id, protocols, answer)
        return
    try:
        group.check_member(member_id, request.group_instance_id)
    except RefusedError as refused:
        _refuse(state, answer, member_id, refused.error)
        return
    member = group.members[member_id]
    unchanged = member.protocols == protocols
    is_follower = group.leader_id != member_id      # a leader that joins a stable group requests a rebalance
    if unchanged and (group.state is GroupState.COMPLETING_REBALANCE
                      or (group.state is GroupState.STABLE and is_follower)):
        state.shard.reply(answer, join_response(group, member_id, answer.context.api_version))
    else:
        _update(state, group, request, member, protocols, answer)


def _update(state: GroupShard, group: ClassicGroup, request: JoinGroupRequest, member: Member, protocols: Protocols,
            answer: Answer[JoinGroupResponse]) -> None:
    """Join a member to the next generation, which the leader may thereby request."""
    group.update(member, protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
    if (before := group.take_join(member)) is not None:
        state.shard.refuse(before, ErrorCode.REBALANCE_IN_PROGRESS)     # of two requests the later one counts
    group.park_join(member, answer)
    rebalance(state, group)


def _add(state: GroupShard, group: ClassicGroup, request: JoinGroupRequest, member_id: str, protocols: Protocols,
         answer: Answer[JoinGroupResponse]) -> None:
    """Add a new member."""
    member = Member(member_id, request.group_instance_id, answer.context.client_id, answer.context.client_host,
                    request.rebalance_timeout_ms, request.session_timeout_ms, protocols, is_new=True,
                    awaiting_join=answer)
    if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
        group.new_member_added = True
    group.add(member, request.protocol_type)
    restart_session(state, group, member, state.config.new_member_join_timeout_ms)
    rebalance(state, group)
