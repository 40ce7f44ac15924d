"""ListGroups, DescribeGroups and DeleteGroups, for the groups of one partition."""

from __future__ import annotations

from collections.abc import Sequence

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.groups.foreign import ForeignGroup
from kraft.broker.groups.group import ClassicGroup, GroupState
from kraft.broker.groups.group_records import offset_record
from kraft.broker.groups.member import Member
from kraft.broker.groups.shard import GroupShard
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_groups_response import DeletableGroupResult
from kraft.protocol.messages.describe_groups_response import DescribedGroup, DescribedGroupMember
from kraft.protocol.messages.list_groups_response import ListedGroup

FIRST_DESCRIBE_VERSION_THAT_TELLS_NOT_FOUND = 6
CLASSIC_TYPE = "classic"


def list_groups(state: GroupShard, states_filter: Sequence[str], types_filter: Sequence[str]) -> list[ListedGroup]:
    """The groups whose state and type are among those asked for, in any case; an empty filter lets all pass."""
    states = [name.strip().lower() for name in states_filter]
    types = [name.strip().lower() for name in types_filter]
    listed = (_listed(group) for group in state.groups.values())
    return [group for group in listed
            if (not states or group.group_state.lower() in states) and (not types or group.group_type in types)]


def _listed(group: ClassicGroup | ForeignGroup) -> ListedGroup:
    if isinstance(group, ClassicGroup):
        return ListedGroup(group_id=group.group_id, protocol_type=group.protocol_type or "",
                           group_state=group.state.value, group_type=CLASSIC_TYPE)
    return ListedGroup(group_id=group.group_id, protocol_type=group.group_type,
                       group_state="Empty" if group.is_empty else "Stable", group_type=group.group_type)


def describe(state: GroupShard, group_id: str, api_version: int) -> DescribedGroup:
    """One group. One that does not exist is Dead; newer clients are told that it was not found."""
    group = state.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        what = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a classic group."
        told = api_version >= FIRST_DESCRIBE_VERSION_THAT_TELLS_NOT_FOUND
        return DescribedGroup(error_code=ErrorCode.GROUP_ID_NOT_FOUND if told else ErrorCode.NONE,
                              error_message=what if told else None, group_id=group_id,
                              group_state=GroupState.DEAD.value, protocol_type="", protocol_data="", members=[])
    stable = group.state is GroupState.STABLE
    return DescribedGroup(
        error_code=0,
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


def delete_groups(state: GroupShard, group_ids: Sequence[str]) -> list[DeletableGroupResult]:
    """Deletes groups without members, with all their offsets, in one batch.

    Raises RefusedError when it could not be written; then none is deleted.
    """
    records = []
    results = []
    for group_id in group_ids:
        try:
            _check_delete(state, group_id)
        except RefusedError as refused:
            results.append(DeletableGroupResult(group_id=group_id, error_code=refused.error))
            continue
        records += [offset_record(group_id, topic, partition, None, state.now_ms)
                    for topic, partition in state.offsets.keys_of_group(group_id)]
        records += state.deletion_records(group_id)
        results.append(DeletableGroupResult(group_id=group_id, error_code=0))
    state.shard.write(records)
    return results


def _check_delete(state: GroupShard, group_id: str) -> None:
    group = state.existing_group(group_id)
    if not (group.is_empty if isinstance(group, ForeignGroup) else group.state is GroupState.EMPTY):
        raise RefusedError(ErrorCode.NON_EMPTY_GROUP)
