"""Deletion of share groups: the states of their partitions are deleted before the group's own records.

The partitions are recorded as to be deleted first. When the share coordinators cannot delete a state, the group stays,
and can be deleted again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.coordinator.gather import Gather
from kraft.broker.groups.shard import GroupShard
from kraft.broker.groups.share import states
from kraft.broker.groups.share.group import ShareGroup, States
from kraft.broker.groups.share.records import StatesChange
from kraft.broker.groups.share.sending import deletions, send_each
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_share_group_state_response import DeleteStateResult


def delete_states(state: GroupShard, groups: Sequence[ShareGroup], done: Callable[[dict[str, int]], None]) -> None:
    """Delete the states of groups without members. `done` gets the error code of each group, 0 without one; it is not
    called when this node stops coordinating the groups."""
    def end(codes: list[int]) -> None:
        done({group.group_id: code for group, code in zip(groups, codes, strict=True)})

    gather: Gather[int] = Gather(len(groups), end)
    for index, group in enumerate(groups):
        _delete(state, group, gather.part(index))


def _delete(state: GroupShard, group: ShareGroup, done: Callable[[int], None]) -> None:
    """Delete the states of one group. A request about them that is under way counts no longer."""
    removed = states.to_delete(group.states, state.environment.topics)
    port = state.environment.share
    group.request = None
    if not removed:
        done(ErrorCode.NONE)
        return
    if port is None:
        done(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return
    deleting = States(deleting={topic_id: each.name for topic_id, each in removed.items()})
    try:
        if deleting != group.states:
            state.write_changes(group.group_id, [StatesChange(deleting)], kind=ShareGroup)
    except RefusedError as refused:
        done(refused.error)
        return

    def end(results: list[DeleteStateResult], now_ms: int) -> None:
        if state.groups.get(group.group_id) is group:
            state.shard.now_ms = max(state.shard.now_ms, now_ms)
            done(next((part.error_code for each in results for part in each.partitions if part.error_code), 0))

    requests = deletions(group.group_id, [(topic_id, each.partitions) for topic_id, each in removed.items()])
    state.shard.after_commit(lambda: send_each(port, requests, end))


def drop_deleted_topics(state: GroupShard, group_ids: Sequence[str]) -> None:
    """Remove topics that do not exist from the states of groups. Raises RefusedError; everything before the failure is
    written."""
    topics = state.environment.topics
    for group_id in group_ids:
        group = state.share_group(group_id)
        if group is None:
            continue
        known = dict.fromkeys((*group.states.initializing, *group.states.initialized, *group.states.deleting))
        deleted = [topic_id for topic_id in known if topics.topic_name(topic_id) is None]
        if deleted:
            state.write_changes(group_id, [StatesChange(states.drop(group.states, deleted))], kind=ShareGroup)
