"""Serving of StreamsGroupHeartbeat: decisions are written and answered here, and members have their clocks.

| timer | effect |
|---|---|
| `session` | removes a member that sent no heartbeat for `group.streams.session.timeout.ms` |
| `rebalance` | removes a member that did not give up tasks within its rebalance time-out |
| `assign` | computes the target of the group, in steps |
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial
from typing import NamedTuple

from kraft.broker.coordinator.answer import Answer
from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.coordinator.shard import Record
from kraft.broker.coordinator.timers import Key
from kraft.broker.groups import target_jobs
from kraft.broker.groups.classic.group import ClassicGroup, GroupState
from kraft.broker.groups.config import streams_settings_of
from kraft.broker.groups.consumer.cluster import Origin
from kraft.broker.groups.consumer.member import JOINING_EPOCH, LEAVING_EPOCH
from kraft.broker.groups.consumer.serving import session_key
from kraft.broker.groups.epochs import TargetEpoch
from kraft.broker.groups.shard import GroupShard
from kraft.broker.groups.streams import assigning, endpoints, heartbeats
from kraft.broker.groups.streams.cluster import StreamsCluster
from kraft.broker.groups.streams.configuring import StatusCode, configure
from kraft.broker.groups.streams.group import StreamsGroup
from kraft.broker.groups.streams.heartbeats import Decision
from kraft.broker.groups.streams.member import MemberState
from kraft.broker.groups.streams.records import Change, TargetEpochChange
from kraft.broker.groups.streams.tasks import Tasks
from kraft.broker.groups.streams.topology import InternalTopic
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from kraft.protocol.messages.streams_group_heartbeat_response import Status, StreamsGroupHeartbeatResponse, TaskIds


class Outcome(NamedTuple):
    """Answer to a heartbeat, and the internal topics that the group needs and that do not exist."""

    response: StreamsGroupHeartbeatResponse
    missing: tuple[InternalTopic, ...] = ()


def refusal(error: ErrorCode, message: str | None = None) -> Outcome:
    """Return the outcome for `error`."""
    return Outcome(StreamsGroupHeartbeatResponse(error_code=error, error_message=message))


def cluster_of(state: GroupShard, group_id: str) -> StreamsCluster:
    """Return what decisions about the group read beside it."""
    environment = state.environment
    config = environment.config.streams
    return StreamsCluster(environment.topics, config,
                          streams_settings_of(config, environment.topics.group_config(group_id)), state.now_ms)


# -------------------------------------------------------------------- heartbeats

def heartbeat(state: GroupShard, request: StreamsGroupHeartbeatRequest, answer: Answer[Outcome]) -> None:
    """Serve a heartbeat whose form is checked. Raises RefusedError when the member is refused, or its records could not
    be written; then nothing changed."""
    group_id, member_id = request.group_id, request.member_id
    if request.member_epoch <= LEAVING_EPOCH:
        _leave(state, request)
        state.shard.reply(answer, Outcome(StreamsGroupHeartbeatResponse(
            error_code=ErrorCode.NONE, member_id=member_id, member_epoch=request.member_epoch, status=[])))
        return
    context = answer.context
    cluster = cluster_of(state, group_id)
    group, before = _joined(state, request)
    decision = heartbeats.heartbeat(
        group, request, Origin(context.api_version, context.client_id, context.client_host), cluster)
    state.write_changes(group_id, decision.changes, before, kind=StreamsGroup)
    group = existing(state, group_id)
    _follow(state, group, member_id, decision, cluster)
    if request.shutdown_application and not group.shutdown_member_id:
        group.shutdown_member_id = member_id
    state.shard.reply(answer, Outcome(_response(state, group, request, decision), decision.configured.missing))
    prepare(state, group)


def _joined(state: GroupShard, request: StreamsGroupHeartbeatRequest) -> tuple[StreamsGroup, Sequence[Record]]:
    """Return the group of a member, and records that end an empty classic group of that name."""
    group = state.groups.get(request.group_id)
    if request.member_epoch == JOINING_EPOCH:
        if group is None:
            return StreamsGroup(request.group_id), ()
        if isinstance(group, ClassicGroup) and group.state is GroupState.EMPTY and not group.pending_join_members:
            return StreamsGroup(request.group_id), state.deletion_records(request.group_id)
    return existing(state, request.group_id), ()


def existing(state: GroupShard, group_id: str) -> StreamsGroup:
    """Return the streams group of that name; refuse with GROUP_ID_NOT_FOUND when it is missing or of another kind."""
    group = state.groups.get(group_id)
    if group is None:
        raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
    if not isinstance(group, StreamsGroup):
        raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
    return group


def _response(state: GroupShard, group: StreamsGroup, request: StreamsGroupHeartbeatRequest,
              decision: Decision) -> StreamsGroupHeartbeatResponse:
    settings = cluster_of(state, group.group_id).settings.common
    statuses = [Status(status_code=each.code, status_detail=each.detail) for each in decision.statuses]
    if group.shutdown_member_id:
        statuses.append(Status(
            status_code=StatusCode.SHUTDOWN_APPLICATION, status_detail=f"Streams group member "
            f"{group.shutdown_member_id} encountered a fatal error and requested a shutdown for the entire "
            "application."))
    response = StreamsGroupHeartbeatResponse(
        error_code=ErrorCode.NONE, member_id=request.member_id, member_epoch=decision.current.epoch,
        heartbeat_interval_ms=settings.heartbeat_interval_ms, endpoint_information_epoch=group.endpoint_epoch,
        status=statuses)
    if decision.assigned is not None:
        tasks = decision.assigned.tasks
        response.active_tasks, response.standby_tasks, response.warmup_tasks = map(_task_ids, tasks)
    if group.endpoint_epoch != request.endpoint_information_epoch:
        response.partitions_by_user_endpoint = endpoints.of_members(group, state.environment.topics)
    return response


def _task_ids(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology_id=each, partitions=partitions) for each, partitions in tasks.items()]


def _follow(state: GroupShard, group: StreamsGroup, member_id: str, decision: Decision,
            cluster: StreamsCluster) -> None:
    """Note what the decision read, and restart the clocks of a member whose heartbeat was written."""
    if decision.configured is not group.configured:
        group.configured = decision.configured
        group.endpoints.clear()
    group.seen_topics = decision.seen_topics
    if decision.begins_delay:
        group.delayed_until_ms = state.now_ms + cluster.settings.initial_delay_ms
    if decision.assigned is not None and group.members[member_id].endpoint is not None:
        group.endpoint_epoch += 1
    _restart_session(state, group.group_id, member_id, cluster.settings.common.session_timeout_ms)
    key = _rebalance_key(group.group_id, member_id)
    if decision.current.state is not MemberState.UNREVOKED_TASKS:
        state.shard.timers.cancel(key)
    elif decision.changes or key not in state.shard.timers:
        _restart_rebalance(state, group, member_id)


# -------------------------------------------------------------------- members that leave

def _leave(state: GroupShard, request: StreamsGroupHeartbeatRequest) -> None:
    """Remove a member that leaves."""
    group = existing(state, request.group_id)
    group.member(request.member_id)
    if request.shutdown_application and not group.shutdown_member_id:
        group.shutdown_member_id = request.member_id
    remove(state, group, request.member_id)


def remove(state: GroupShard, group: StreamsGroup, member_id: str) -> None:
    """Remove a member. Raises RefusedError when that could not be written; then nothing changed."""
    state.write_changes(group.group_id, heartbeats.remove(group, member_id), kind=StreamsGroup)
    for key in (session_key(group.group_id, member_id), _rebalance_key(group.group_id, member_id)):
        state.shard.timers.cancel(key)
    prepare(state, group)


def _rebalance_key(group_id: str, member_id: str) -> Key:
    return "rebalance", group_id, member_id


def _restart_session(state: GroupShard, group_id: str, member_id: str, timeout_ms: int) -> None:
    state.shard.after(session_key(group_id, member_id), timeout_ms, partial(_session_over, state, group_id, member_id))


def _restart_rebalance(state: GroupShard, group: StreamsGroup, member_id: str) -> None:
    state.shard.after(_rebalance_key(group.group_id, member_id), group.members[member_id].rebalance_timeout_ms, partial(
        _rebalance_over, state, group.group_id, member_id, group.current(member_id).epoch))


def _session_over(state: GroupShard, group_id: str, member_id: str) -> None:
    """Remove a member that was unresponsive for too long."""
    group = state.groups.get(group_id)
    if isinstance(group, StreamsGroup) and member_id in group.members:
        _remove_by_clock(state, group, member_id)


def _rebalance_over(state: GroupShard, group_id: str, member_id: str, epoch: int) -> None:
    """Remove a member that did not give up tasks in time."""
    group = state.groups.get(group_id)
    if not isinstance(group, StreamsGroup) or member_id not in group.members:
        return
    current = group.current(member_id)
    if current.state is MemberState.UNREVOKED_TASKS and current.epoch == epoch:
        _remove_by_clock(state, group, member_id)


def _remove_by_clock(state: GroupShard, group: StreamsGroup, member_id: str) -> None:
    """Remove a member for which no request waits; try again later when that cannot be written."""
    try:
        remove(state, group, member_id)
    except RefusedError:
        _restart_session(state, group.group_id, member_id, target_jobs.RETRY_MS)


def start(state: GroupShard, group: StreamsGroup) -> None:
    """Start the clocks of a group that was loaded: every member has a whole time-out to contact this coordinator."""
    timeout_ms = cluster_of(state, group.group_id).settings.common.session_timeout_ms
    for member_id in group.members:
        _restart_session(state, group.group_id, member_id, timeout_ms)
        if group.current(member_id).state is MemberState.UNREVOKED_TASKS:
            _restart_rebalance(state, group, member_id)
    prepare(state, group)


# -------------------------------------------------------------------- targets

def prepare(state: GroupShard, group: StreamsGroup) -> None:
    """Have the group's target computed when it is behind, no earlier than it is due."""
    if group.topology is None or not target_jobs.is_behind(state, group):
        return
    settings = cluster_of(state, group.group_id).settings.common
    target_jobs.schedule(state, target_jobs.TargetJob(
        group, partial(_target_steps, state, group), partial(prepare, state, group)),
        max(group.delayed_until_ms, group.target_due_ms(state.now_ms, settings.assignment_interval_ms)))


def _target_steps(state: GroupShard, group: StreamsGroup) -> Generator[None, None, None]:
    """Compute the target for the group's present epoch, and write it: first the members' targets, in several batches if
    there are many, then the epoch. Members that left meanwhile get none."""
    epoch = group.epoch
    assert group.topology is not None
    cluster = cluster_of(state, group.group_id)
    configured = group.configured
    if configured is None:
        configured = configure(group.topology, cluster.topics)
    changes = yield from assigning.target_steps(group, configured, cluster.settings.standby_replicas, {})
    last = TargetEpochChange(TargetEpoch(epoch, state.now_ms))
    for some in target_jobs.batches(changes):
        batch: list[Change] = [each for each in some.changes if each.member_id in group.members]
        state.write_changes(group.group_id, [*batch, last] if some.is_last else batch, kind=StreamsGroup)
        yield
