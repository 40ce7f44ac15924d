"""Serving of ShareGroupHeartbeat: decisions are written and answered here, and members have their clocks.

| timer | effect |
|---|---|
| `session` | removes a member that sent no heartbeat for `group.share.session.timeout.ms` |
| `assign` | computes the target of the group, in steps |
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

from kraft.broker.coordinator.answer import Answer
from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.groups import target_jobs
from kraft.broker.groups.config import share_settings_of
from kraft.broker.groups.consumer.cluster import Origin
from kraft.broker.groups.consumer.member import JOINING_EPOCH, LEAVING_EPOCH, Partitions
from kraft.broker.groups.consumer.serving import session_key
from kraft.broker.groups.epochs import TargetEpoch
from kraft.broker.groups.shard import GroupShard
from kraft.broker.groups.share import assigning, heartbeats, initializing
from kraft.broker.groups.share.cluster import ShareCluster
from kraft.broker.groups.share.group import ShareGroup
from kraft.broker.groups.share.heartbeats import Decision
from kraft.broker.groups.share.records import Change, TargetEpochChange
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kraft.protocol.messages.share_group_heartbeat_response import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)


def refusal(error: ErrorCode, message: str | None = None) -> ShareGroupHeartbeatResponse:
    """Return the response for `error`."""
    return ShareGroupHeartbeatResponse(error_code=error, error_message=message)


def cluster_of(state: GroupShard, group_id: str) -> ShareCluster:
    """Return what decisions about the group read beside it."""
    environment = state.environment
    config = environment.config.share
    return ShareCluster(environment.topics, config,
                        share_settings_of(config, environment.topics.group_config(group_id)), state.now_ms,
                        environment.share is not None)


# -------------------------------------------------------------------- heartbeats

def heartbeat(state: GroupShard, request: ShareGroupHeartbeatRequest,
              answer: Answer[ShareGroupHeartbeatResponse]) -> None:
    """Serve a heartbeat whose form is checked. Raises RefusedError when the member is refused, or its records could not
    be written; then nothing changed."""
    group_id, member_id = request.group_id, request.member_id
    if request.member_epoch == LEAVING_EPOCH:
        group = existing(state, group_id)
        group.member(member_id)
        remove(state, group, member_id)
        state.shard.reply(answer, ShareGroupHeartbeatResponse(
            error_code=ErrorCode.NONE, member_id=member_id, member_epoch=request.member_epoch))
        return
    context = answer.context
    cluster = cluster_of(state, group_id)
    is_new = request.member_epoch == JOINING_EPOCH and group_id not in state.groups
    decision = heartbeats.heartbeat(
        ShareGroup(group_id) if is_new else existing(state, group_id), request,
        Origin(context.api_version, context.client_id, context.client_host), cluster)
    state.write_changes(group_id, decision.changes, kind=ShareGroup)
    _follow(state, group_id, member_id, decision, cluster)
    state.shard.reply(answer, ShareGroupHeartbeatResponse(
        error_code=ErrorCode.NONE, member_id=member_id, member_epoch=decision.current.epoch,
        heartbeat_interval_ms=cluster.settings.heartbeat_interval_ms,
        assignment=None if decision.assignment is None else _assignment(decision.assignment)))


def existing(state: GroupShard, group_id: str) -> ShareGroup:
    """Return the share group of that name; refuse with GROUP_ID_NOT_FOUND when it is missing or of another kind."""
    group = state.groups.get(group_id)
    if group is None:
        raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
    if not isinstance(group, ShareGroup):
        raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
    return group


def _assignment(partitions: Partitions) -> Assignment:
    return Assignment(topic_partitions=[TopicPartitions(topic_id=topic_id, partitions=indexes)
                                        for topic_id, indexes in partitions.items()])


def _follow(state: GroupShard, group_id: str, member_id: str, decision: Decision, cluster: ShareCluster) -> None:
    """Restart the clock of a member whose heartbeat was written, and begin what the heartbeat led to."""
    group = state.share_group(group_id)
    assert group is not None, "a member's group does not exist"
    group.seen_topics = decision.seen_topics
    group.assigned_states = decision.assigned_states
    _restart_session(state, group_id, member_id, cluster.settings.session_timeout_ms)
    if decision.requested:
        initializing.begin(state, group, decision.requested)
    prepare(state, group)


# -------------------------------------------------------------------- members that leave

def remove(state: GroupShard, group: ShareGroup, member_id: str) -> None:
    """Remove a member. Raises RefusedError when that could not be written; then nothing changed."""
    state.write_changes(group.group_id, heartbeats.remove(group, member_id, cluster_of(state, group.group_id)),
                        kind=ShareGroup)
    state.shard.timers.cancel(session_key(group.group_id, member_id))
    prepare(state, group)


def _restart_session(state: GroupShard, group_id: str, member_id: str, timeout_ms: int) -> None:
    state.shard.after(session_key(group_id, member_id), timeout_ms, partial(_session_over, state, group_id, member_id))


def _session_over(state: GroupShard, group_id: str, member_id: str) -> None:
    """Remove a member that was unresponsive for too long; try again later when that cannot be written."""
    group = state.share_group(group_id)
    if group is None or member_id not in group.subscriptions:
        return
    try:
        remove(state, group, member_id)
    except RefusedError:
        _restart_session(state, group_id, member_id, target_jobs.RETRY_MS)


def start(state: GroupShard, group: ShareGroup) -> None:
    """Start the clocks of a group that was loaded: every member has a whole time-out to contact this coordinator."""
    timeout_ms = cluster_of(state, group.group_id).settings.session_timeout_ms
    for member_id in group.subscriptions:
        _restart_session(state, group.group_id, member_id, timeout_ms)
    prepare(state, group)


# -------------------------------------------------------------------- targets

def prepare(state: GroupShard, group: ShareGroup) -> None:
    """Have the group's target computed when it is behind, no earlier than it is due."""
    if not target_jobs.is_behind(state, group):
        return
    settings = cluster_of(state, group.group_id).settings
    target_jobs.schedule(state, target_jobs.TargetJob(
        group, partial(_target_steps, state, group), partial(prepare, state, group)),
        group.target_due_ms(state.now_ms, settings.assignment_interval_ms))


def _target_steps(state: GroupShard, group: ShareGroup) -> Generator[None, None, None]:
    """Compute the target for the group's present epoch, and write it: first the members' targets, in several batches if
    there are many, then the epoch. Members that left meanwhile get none."""
    epoch, states = group.epoch, group.states
    changes = yield from assigning.target_steps(group, state.environment.topics, {})
    last = TargetEpochChange(TargetEpoch(epoch, state.now_ms))
    for some in target_jobs.batches(changes):
        batch: list[Change] = [each for each in some.changes if each.member_id in group.subscriptions]
        state.write_changes(group.group_id, [*batch, last] if some.is_last else batch, kind=ShareGroup)
        yield
    group.assigned_states = states
