"""Serving of ConsumerGroupHeartbeat: decisions are written and answered here, and members have their clocks.

| timer | effect |
|---|---|
| `session` | removes a member that sent no heartbeat for `group.consumer.session.timeout.ms` |
| `rebalance` | removes a member that did not give up partitions within its rebalance time-out |
| `assign` | computes the target of the group, in steps |
| `regex` | finds the topics that match the group's regular expressions, in steps |
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from kraft.broker.coordinator.answer import Answer, RequestContext
from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.coordinator.shard import Record
from kraft.broker.coordinator.timers import Key
from kraft.broker.groups import target_jobs
from kraft.broker.groups.classic import rebalancing
from kraft.broker.groups.classic.group import ClassicGroup, GroupState
from kraft.broker.groups.config import settings_of
from kraft.broker.groups.consumer import assigning, heartbeats, migration, regexes
from kraft.broker.groups.consumer.cluster import Cluster, Origin
from kraft.broker.groups.consumer.group import ConsumerGroup
from kraft.broker.groups.consumer.heartbeats import Decision
from kraft.broker.groups.consumer.member import JOINING_EPOCH, LEAVING_EPOCH, MemberState, Owned
from kraft.broker.groups.consumer.records import Change, TargetEpochChange, deletion
from kraft.broker.groups.epochs import TargetEpoch
from kraft.broker.groups.group_records import group_record
from kraft.broker.groups.shard import GroupShard
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kraft.protocol.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)


def refusal(error: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    """Return the response for `error`."""
    return ConsumerGroupHeartbeatResponse(error_code=error, error_message=message)


def cluster_of(state: GroupShard, group_id: str) -> Cluster:
    """Return what decisions about the group read beside it."""
    environment = state.environment
    config = environment.config.consumer
    return Cluster(environment.topics, config, settings_of(config, environment.topics.group_config(group_id)),
                   state.now_ms, lambda: str(environment.new_uuid()))


# -------------------------------------------------------------------- heartbeats

def heartbeat(state: GroupShard, request: ConsumerGroupHeartbeatRequest,
              answer: Answer[ConsumerGroupHeartbeatResponse]) -> None:
    """Serve a heartbeat whose form is checked. Raises RefusedError when the member is refused, or its records could not
    be written; then nothing changed."""
    cluster = cluster_of(state, request.group_id)
    context = answer.context
    if request.member_epoch <= LEAVING_EPOCH:
        _leave(state, request)
        state.shard.reply(answer, ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.NONE, member_id=request.member_id, member_epoch=request.member_epoch))
        return
    joined = _joined(state, request, cluster)
    decision = heartbeats.heartbeat(
        joined.group, request, Origin(context.api_version, context.client_id, context.client_host), cluster)
    state.write_changes(request.group_id, [*joined.changes, *decision.changes], joined.before)
    if joined.classic is not None:
        _converted(state, joined.classic)
    follow(state, request.group_id, decision, cluster.settings.session_timeout_ms)
    state.shard.reply(answer, ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE, member_id=decision.member_id, member_epoch=decision.current.epoch,
        heartbeat_interval_ms=cluster.settings.heartbeat_interval_ms,
        assignment=None if decision.assignment is None else _assignment(decision.assignment)))
    prepare(state, request.group_id, context)


def _leave(state: GroupShard, request: ConsumerGroupHeartbeatRequest) -> None:
    """Remove a member that leaves, or note that a static one leaves for a while."""
    group = _existing(state, request.group_id)
    heartbeats.check_leaver(group, request)
    if request.member_epoch == LEAVING_EPOCH:
        remove(state, group, (request.member_id,))
    else:
        state.write_changes(request.group_id, heartbeats.leave_for_a_while(group, request.member_id))


def _assignment(owned: Owned) -> Assignment:
    return Assignment(topic_partitions=[TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                                        for topic_id, partitions in owned.items()])


def _existing(state: GroupShard, group_id: str) -> ConsumerGroup:
    group = state.groups.get(group_id)
    if group is None:
        raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
    if not isinstance(group, ConsumerGroup):
        raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    return group


class _Joined(NamedTuple):
    """Group of a member that joins or stays. `before` are records that end a classic group of that name, `changes`
    those that convert it. `classic` is that group, if it has members."""

    group: ConsumerGroup
    before: Sequence[Record] = ()
    changes: Sequence[Change] = ()
    classic: ClassicGroup | None = None


def _joined(state: GroupShard, request: ConsumerGroupHeartbeatRequest, cluster: Cluster) -> _Joined:
    group = state.groups.get(request.group_id)
    if request.member_epoch == JOINING_EPOCH:
        if group is None:
            return _Joined(ConsumerGroup(request.group_id))
        if isinstance(group, ClassicGroup):
            before = state.deletion_records(request.group_id)
            if group.state is GroupState.EMPTY and not group.pending_join_members:
                return _Joined(ConsumerGroup(request.group_id), before)
            if migration.may_upgrade(group, cluster):
                changes = migration.upgrade(group, cluster)
                return _Joined(migration.scratch(request.group_id, changes), before, changes, group)
    return _Joined(_existing(state, request.group_id))


def _converted(state: GroupShard, classic: ClassicGroup) -> None:
    """Let the members of a classic group that is a consumer group now join again; end the clocks of the classic one."""
    group_id = classic.group_id
    for key in (("join", group_id), ("sync", group_id)):
        state.shard.timers.cancel(key)
    for member_id in classic.pending_join_members:
        state.shard.timers.cancel(session_key(group_id, member_id))
    for member in classic.members.values():
        state.refuse_parked(classic, member, ErrorCode.REBALANCE_IN_PROGRESS)
        restart_session(state, group_id, member.member_id, member.session_timeout_ms)


# -------------------------------------------------------------------- members that leave

def remove(state: GroupShard, group: ConsumerGroup, member_ids: tuple[str, ...]) -> None:
    """Remove members. The group becomes a classic one when only classic members are left and the policy allows it.
    Raises RefusedError when that could not be written; then nothing changed."""
    cluster = cluster_of(state, group.group_id)
    if migration.may_downgrade(group, member_ids, cluster, state.config.group_max_size):
        _downgrade(state, group, member_ids)
    else:
        state.write_changes(group.group_id, heartbeats.fence(group, member_ids, cluster))
        for member_id in member_ids:
            _end_timers(state, group.group_id, member_id)
        prepare(state, group.group_id)


def settle_kind(state: GroupShard, group_id: str) -> None:
    """Make a classic group of a group whose last member of the consumer protocol was replaced by a classic one. When
    that cannot be written the group stays what it is, until a member leaves."""
    group = state.consumer_group(group_id)
    if group is None or not migration.may_downgrade(
            group, (), cluster_of(state, group_id), state.config.group_max_size):
        return
    with suppress(RefusedError):
        _downgrade(state, group, ())


def _downgrade(state: GroupShard, group: ConsumerGroup, member_ids: tuple[str, ...]) -> None:
    group_id = group.group_id
    value = migration.downgrade(group, member_ids, state.environment.topics, state.now_ms)
    parts = {member_id: each.classic for member_id, each in group.subscriptions.items() if each.classic is not None}
    state.write_changes(group_id, deletion(group), after=[group_record(group_id, value, state.now_ms)])
    for member_id in [*member_ids, *parts]:
        _end_timers(state, group_id, member_id)
    state.shard.timers.cancel(target_jobs.assign_key(group_id))
    classic = state.classic_group(group_id)
    assert classic is not None, "the record of a classic group made none"
    for member in classic.members.values():
        part = parts[member.member_id]
        classic.update(member, part.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        rebalancing.restart_session(state, classic, member)
    rebalancing.prepare_rebalance(state, classic)


# -------------------------------------------------------------------- clocks

def session_key(group_id: str, member_id: str) -> Key:
    return "session", group_id, member_id


def _rebalance_key(group_id: str, member_id: str) -> Key:
    return "rebalance", group_id, member_id


def follow(state: GroupShard, group_id: str, decision: Decision, session_timeout_ms: int) -> None:
    """Restart the clocks of a member whose heartbeat, or JoinGroup, was written."""
    group = state.consumer_group(group_id)
    assert group is not None, "a member's group does not exist"
    group.seen_topics = decision.seen_topics
    member_id = decision.member_id
    if decision.confirms is not None:
        if decision.confirms:
            group.unconfirmed.pop(member_id, None)
        else:
            group.unconfirmed.setdefault(member_id, state.now_ms)
    if decision.replaced_id is not None and decision.replaced_id != member_id:
        _end_timers(state, group_id, decision.replaced_id)
        group.job = None        # it is about the previous member id
    restart_session(state, group_id, member_id, session_timeout_ms)
    key = _rebalance_key(group_id, member_id)
    if decision.current.state is not MemberState.UNREVOKED_PARTITIONS:
        state.shard.timers.cancel(key)
    elif decision.is_step or key not in state.shard.timers:
        state.shard.after(key, group.subscriptions[member_id].rebalance_timeout_ms,
                          partial(_rebalance_over, state, group_id, member_id, decision.current.epoch))


def restart_session(state: GroupShard, group_id: str, member_id: str, timeout_ms: int) -> None:
    """Restart the session of a member that showed that it is alive."""
    state.shard.after(session_key(group_id, member_id), timeout_ms, partial(_session_over, state, group_id, member_id))


def _end_timers(state: GroupShard, group_id: str, member_id: str) -> None:
    for name in ("session", "rebalance", "rejoin", "sync member"):
        state.shard.timers.cancel((name, group_id, member_id))


def _session_over(state: GroupShard, group_id: str, member_id: str) -> None:
    """Remove a member that was unresponsive for too long."""
    group = state.consumer_group(group_id)
    if group is not None and member_id in group.subscriptions:
        remove_by_clock(state, group, member_id)


def _rebalance_over(state: GroupShard, group_id: str, member_id: str, epoch: int) -> None:
    """Remove a member that did not give up partitions in time."""
    group = state.consumer_group(group_id)
    if group is None or member_id not in group.subscriptions:
        return
    current = group.current(member_id)
    if current.state is MemberState.UNREVOKED_PARTITIONS and current.epoch == epoch:
        remove_by_clock(state, group, member_id)


def remove_by_clock(state: GroupShard, group: ConsumerGroup, member_id: str) -> None:
    """Remove a member for which no request waits; try again later when that cannot be written."""
    try:
        remove(state, group, (member_id,))
    except RefusedError:
        restart_session(state, group.group_id, member_id, target_jobs.RETRY_MS)


def start(state: GroupShard, group: ConsumerGroup) -> None:
    """Start the clocks of a group that was loaded: every member has a whole time-out to contact this coordinator."""
    cluster = cluster_of(state, group.group_id)
    for member_id, subscription in group.subscriptions.items():
        timeout_ms = (cluster.settings.session_timeout_ms if subscription.classic is None
                      else subscription.classic.session_timeout_ms)
        restart_session(state, group.group_id, member_id, timeout_ms)
        current = group.current(member_id)
        if current.state is MemberState.UNREVOKED_PARTITIONS:
            state.shard.after(_rebalance_key(group.group_id, member_id), subscription.rebalance_timeout_ms,
                              partial(_rebalance_over, state, group.group_id, member_id, current.epoch))
    prepare(state, group.group_id)


# -------------------------------------------------------------------- targets

def prepare(state: GroupShard, group_id: str, context: RequestContext | None = None) -> None:
    """Have the group's target computed when it is behind, no earlier than it is due, and its regular expressions
    resolved, for a member whose request has `context`."""
    group = state.consumer_group(group_id)
    if group is None or group.is_empty:
        return
    is_behind = target_jobs.is_behind(state, group)
    if not is_behind and not group.has_regexes:
        return
    cluster = cluster_of(state, group_id)
    if context is not None:
        regexes.prepare(state, group, cluster, context, partial(prepare, state, group_id))
    if is_behind:
        target_jobs.schedule(state, target_jobs.TargetJob(
            group, partial(_target_steps, state, group), partial(prepare, state, group_id)),
            assigning.due_ms(group, cluster))


def _target_steps(state: GroupShard, group: ConsumerGroup) -> Generator[None, None, None]:
    """Compute the target for the group's present epoch, and write it: first the members' targets, in several batches if
    there are many, then the epoch. So a target that was broken off is computed again. Members that left meanwhile get
    none."""
    epoch = group.epoch
    cluster = cluster_of(state, group.group_id)
    changes = yield from assigning.target_steps(group, cluster, {}, {})
    last = TargetEpochChange(TargetEpoch(epoch, state.now_ms))
    for some in target_jobs.batches(changes):
        batch: list[Change] = [each for each in some.changes if each.member_id in group.subscriptions]
        state.write_changes(group.group_id, [*batch, last] if some.is_last else batch)
        yield
