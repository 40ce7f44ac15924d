"""Requests of classic members, which a consumer group may have too: to the module of the group's kind."""

from __future__ import annotations

from kraft.broker.coordinator.answer import Answer
from kraft.broker.groups.classic import joining, syncing
from kraft.broker.groups.classic.syncing import leave_response, leavers
from kraft.broker.groups.consumer import classic_members
from kraft.broker.groups.shard import GroupShard
from kraft.protocol.messages.heartbeat_request import HeartbeatRequest
from kraft.protocol.messages.heartbeat_response import HeartbeatResponse
from kraft.protocol.messages.join_group_request import JoinGroupRequest
from kraft.protocol.messages.join_group_response import JoinGroupResponse
from kraft.protocol.messages.leave_group_request import LeaveGroupRequest
from kraft.protocol.messages.leave_group_response import LeaveGroupResponse
from kraft.protocol.messages.sync_group_request import SyncGroupRequest
from kraft.protocol.messages.sync_group_response import SyncGroupResponse


def join(state: GroupShard, request: JoinGroupRequest, answer: Answer[JoinGroupResponse]) -> None:
    """Serve JoinGroup. An empty consumer group becomes a classic one."""
    group = state.consumer_group(request.group_id)
    if group is None or group.is_empty:
        joining.join(state, request, answer)
    else:
        classic_members.join(state, group, request, answer)


def sync(state: GroupShard, request: SyncGroupRequest, answer: Answer[SyncGroupResponse]) -> None:
    """Serve SyncGroup."""
    group = state.consumer_group(request.group_id)
    if group is None:
        syncing.sync(state, request, answer)
    else:
        classic_members.sync(state, group, request, answer)


def heartbeat(state: GroupShard, request: HeartbeatRequest, answer: Answer[HeartbeatResponse]) -> None:
    """Serve Heartbeat."""
    group = state.consumer_group(request.group_id)
    if group is None:
        syncing.heartbeat(state, request, answer)
    else:
        classic_members.heartbeat(state, group, request, answer)


def leave(state: GroupShard, request: LeaveGroupRequest, answer: Answer[LeaveGroupResponse]) -> None:
    """Serve LeaveGroup."""
    group = state.consumer_group(request.group_id)
    if group is None:
        syncing.leave(state, request, answer)
    else:
        version = answer.context.api_version
        results = classic_members.leave(state, group, leavers(request, version))
        state.shard.reply(answer, leave_response(results, version))
