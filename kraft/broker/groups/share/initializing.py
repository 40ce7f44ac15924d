"""Creation of the states of partitions, before the partitions are assigned.

A heartbeat records partitions without a state as initializing. Once that is committed, the share coordinators are
requested to create their states; those that they have created become initialized. One request of a group is under way
at a time. What failed stays initializing, and is requested again at a later heartbeat.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.groups.shard import GroupShard
from kraft.broker.groups.share import states
from kraft.broker.groups.share.group import ShareGroup, StateRequest, StateTopics
from kraft.broker.groups.share.records import StatesChange
from kraft.protocol.messages.initialize_share_group_state_request import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    PartitionData,
)
from kraft.protocol.messages.initialize_share_group_state_response import InitializeShareGroupStateResponse

RETRY_MS: Final = 1_000
"""Time from a failed request to the next one."""
UNINITIALIZED_OFFSET: Final = -1
"""Start offset of a state that begins where the group's settings say, at the first fetch."""


def begin(state: GroupShard, group: ShareGroup, requested: StateTopics) -> None:
    """Request the states of partitions that are recorded as initializing, once that is committed."""
    token = group.request = StateRequest(state.now_ms + state.config.share.initialize_retry_ms)
    state.shard.after_commit(partial(_send, state, group, token, requested))


def _send(state: GroupShard, group: ShareGroup, token: StateRequest, requested: StateTopics) -> None:
    port = state.environment.share
    if port is not None and is_current(state, group, token):
        port.send(InitializeShareGroupStateRequest(group_id=group.group_id, topics=[
            InitializeStateData(topic_id=topic_id, partitions=[
                PartitionData(partition=index, state_epoch=group.epoch, start_offset=UNINITIALIZED_OFFSET)
                for index in each.partitions])
            for topic_id, each in requested.items()]), partial(_end, state, group, token))


def is_current(state: GroupShard, group: ShareGroup, token: StateRequest) -> bool:
    """Return whether the group still waits for the answer to that request."""
    return state.groups.get(group.group_id) is group and group.request is token


def _end(state: GroupShard, group: ShareGroup, token: StateRequest, response: InitializeShareGroupStateResponse,
         now_ms: int) -> None:
    if not is_current(state, group, token):
        return
    state.shard.now_ms = max(state.shard.now_ms, now_ms)
    group.request = None
    created = {each.topic_id: indexes for each in response.results if (indexes := tuple(sorted(
        part.partition for part in each.partitions if not part.error_code)))}
    if any(part.error_code for each in response.results for part in each.partitions):
        group.retry_ms = state.now_ms + RETRY_MS
    following = states.end_initializing(group.states, created, state.environment.topics)
    if following == group.states:
        return
    try:
        state.write_changes(group.group_id, [StatesChange(following)], kind=ShareGroup)
    except RefusedError:
        group.retry_ms = state.now_ms + RETRY_MS     # the states exist; a later request changes nothing in them
