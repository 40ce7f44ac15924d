"""ListGroups, DescribeGroups and DeleteGroups, for the groups of one partition."""

from __future__ import annotations

from collections.abc import Sequence

from kraft.broker.coordinator.answer import Answer
from kraft.broker.coordinator.shard import Record
from kraft.broker.groups.classic.group import ClassicGroup, GroupState
from kraft.broker.groups.classic.member import Member
from kraft.broker.groups.consumer.group import CONSUMER_TYPE, ConsumerGroup
from kraft.broker.groups.group_records import offset_record
from kraft.broker.groups.shard import Group, GroupShard
from kraft.broker.groups.share.group import SHARE_TYPE, ShareGroup
from kraft.broker.groups.steps import Unit, new_key, units_of, visit
from kraft.broker.groups.streams.group import STREAMS_TYPE
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import bounded
from kraft.protocol.messages.delete_groups_response import DeletableGroupResult
from kraft.protocol.messages.describe_groups_response import DescribedGroup, DescribedGroupMember
from kraft.protocol.messages.list_groups_response import ListedGroup

FIRST_DESCRIBE_VERSION_WITH_NOT_FOUND = 6
CLASSIC_TYPE = "classic"


def list_groups(state: GroupShard, states_filter: Sequence[str], types_filter: Sequence[str]) -> list[ListedGroup]:
    """Return the groups whose state and type match the filters, ignoring case, the newest first; an empty filter
    matches all."""
    states = [name.strip().lower() for name in states_filter]
    types = [name.strip().lower() for name in types_filter]
    listed = (_listed(group) for group in reversed(state.groups.values()))
    return [group for group in listed
            if (not states or group.group_state.lower() in states) and (not types or group.group_type in types)]


def _listed(group: Group) -> ListedGroup:
    if isinstance(group, ClassicGroup):
        return ListedGroup(group_id=group.group_id, protocol_type=group.protocol_type or "",
                           group_state=group.state.value, group_type=CLASSIC_TYPE)
    if isinstance(group, ConsumerGroup):
        return ListedGroup(group_id=group.group_id, protocol_type=CONSUMER_TYPE, group_state=group.state.value,
                           group_type=CONSUMER_TYPE)
    if isinstance(group, ShareGroup):
        return ListedGroup(group_id=group.group_id, protocol_type=SHARE_TYPE, group_state=group.state.value,
                           group_type=SHARE_TYPE)
    return ListedGroup(group_id=group.group_id, protocol_type=STREAMS_TYPE, group_state=group.state.value,
                       group_type=STREAMS_TYPE)


def describe(state: GroupShard, group_id: str, api_version: int) -> DescribedGroup:
    """Describe one group. A missing group is Dead; newer clients get GROUP_ID_NOT_FOUND."""
    group = state.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        what = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a classic group."
        names_error = api_version >= FIRST_DESCRIBE_VERSION_WITH_NOT_FOUND
        return DescribedGroup(error_code=ErrorCode.GROUP_ID_NOT_FOUND if names_error else ErrorCode.NONE,
                              error_message=bounded(what) if names_error else None, group_id=group_id,
                              group_state=GroupState.DEAD.value, protocol_type="", protocol_data="", members=[])
    stable = group.state is GroupState.STABLE
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if stable else "",
        members=[_described(group, member, stable) for member in group.members.values()],
    )


def _described(group: ClassicGroup, member: Member, stable: bool) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(group.protocol_name or "") if stable else b"",
        member_assignment=member.assignment,
    )


def delete_groups(state: GroupShard, group_ids: Sequence[str], answer: Answer[list[DeletableGroupResult]]) -> None:
    """Delete groups without members, with all their offsets, over as many ticks as that needs.

    Until then requests for the groups are refused, so no client sees only some of a group's offsets. A group's own
    record is deleted last. So after a failed write or an interrupted deletion the group still exists with its remaining
    offsets, and can be deleted again.
    """
    results = {group_id: DeletableGroupResult(group_id=group_id, error_code=_why_not(state, group_id))
               for group_id in group_ids}
    due = [result.group_id for result in results.values() if not result.error_code]
    if not due:
        state.shard.reply(answer, list(results.values()))
        return
    state.deleting.update(dict.fromkeys(due, answer))
    shared = [group for group_id in due if (group := state.share_group(group_id)) is not None and group.has_states]
    if not shared:
        _delete(state, results, due, answer)
        return

    def states_deleted(codes: dict[str, int]) -> None:
        for group_id, code in codes.items():
            if code:
                results[group_id].error_code = code
                state.deleting.pop(group_id, None)
        _delete(state, results, [each for each in due if not codes.get(each)], answer)

    # Imported here: a node without share groups starts without the requests about their states.
    from kraft.broker.groups.share.removing import delete_states
    delete_states(state, shared, states_deleted)


def _delete(state: GroupShard, results: dict[str, DeletableGroupResult], due: Sequence[str],
            answer: Answer[list[DeletableGroupResult]]) -> None:
    """Delete groups, and answer with the results of all."""
    left = dict.fromkeys(due)

    def delete(units: Sequence[Unit]) -> None:
        records: list[Record] = []
        for group_id, key in units:
            if key is not None:
                records.append(offset_record(group_id, *key, None, state.now_ms))
            elif group_id in state.groups:      # it may have expired meanwhile
                records += state.deletion_records(group_id)
        state.shard.write(records)
        for group_id, key in units:
            if key is None:
                del left[group_id]

    def end(error: ErrorCode) -> None:
        for group_id in left:
            results[group_id].error_code = error
        for group_id in due:
            del state.deleting[group_id]
        state.shard.reply(answer, list(results.values()))

    key = new_key(state, "delete groups")
    state.shard.after(key, 0, lambda: visit(state, key, units_of(state, due), delete, end))


def _why_not(state: GroupShard, group_id: str) -> ErrorCode:
    """Return why a group cannot be deleted; NONE when it can."""
    group = state.groups.get(group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group_id in state.deleting:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    is_empty = group.state is GroupState.EMPTY if isinstance(group, ClassicGroup) else group.is_empty
    return ErrorCode.NONE if is_empty else ErrorCode.NON_EMPTY_GROUP
