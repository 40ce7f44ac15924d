"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup (KIP-848).

Such a member rejoins for every step: its generation is its member epoch, and it learns what it has by SyncGroup. It has
two more clocks: `rejoin`, from the moment it is to join again, and `sync`, from its JoinGroup.
"""

from __future__ import annotations

from functools import partial

from kraft.broker.coordinator.answer import Answer
from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.coordinator.timers import Key
from kraft.broker.groups.classic.member import protocols_of
from kraft.broker.groups.consumer import heartbeats, migration, serving
from kraft.broker.groups.consumer.classic_form import owned_of, read_subscription, version_of, write_assignment
from kraft.broker.groups.consumer.group import CONSUMER_TYPE, ConsumerGroup
from kraft.broker.groups.consumer.member import ClassicPart, MemberState, Subscription, partitions_of
from kraft.broker.groups.shard import GroupShard
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.heartbeat_request import HeartbeatRequest
from kraft.protocol.messages.heartbeat_response import HeartbeatResponse
from kraft.protocol.messages.join_group_request import JoinGroupRequest
from kraft.protocol.messages.join_group_response import JoinGroupResponse
from kraft.protocol.messages.leave_group_request import MemberIdentity
from kraft.protocol.messages.leave_group_response import MemberResponse
from kraft.protocol.messages.sync_group_request import SyncGroupRequest
from kraft.protocol.messages.sync_group_response import SyncGroupResponse

FIRST_JOIN_VERSION_WITH_KNOWN_ID = 4


def join(state: GroupShard, group: ConsumerGroup, request: JoinGroupRequest,
         answer: Answer[JoinGroupResponse]) -> None:
    """Let a classic member join, or take its next step. Raises RefusedError; then nothing changed."""
    cluster = serving.cluster_of(state, group.group_id)
    protocols = protocols_of(request.protocols)
    is_new = not request.member_id
    member_id = request.member_id or str(state.environment.new_uuid())
    heartbeats.check_room(group, member_id, cluster)
    known = group.subscriptions.get(member_id)
    if not cluster.config.may_mix and (known is None or known.classic is None):
        raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not migration.supports(group, request.protocol_type, [name for name, _ in protocols], member_id):
        raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if (is_new and request.group_instance_id is None
            and answer.context.api_version >= FIRST_JOIN_VERSION_WITH_KNOWN_ID):
        refused = answer.refusal(ErrorCode.MEMBER_ID_REQUIRED)
        refused.member_id = member_id
        state.shard.reply(answer, refused)
        return
    said = read_subscription(protocols[0][1])
    context = answer.context

    def after(before: Subscription | None) -> Subscription:
        known = before or Subscription()
        return known._replace(
            instance_id=request.group_instance_id or known.instance_id, rack_id=said.rack_id or known.rack_id,
            client_id=context.client_id, client_host=context.client_host,
            topic_names=tuple(sorted(dict.fromkeys(said.topics))), topic_regex="",
            rebalance_timeout_ms=request.rebalance_timeout_ms, server_assignor=None,
            classic=ClassicPart(request.session_timeout_ms, protocols))

    decision = heartbeats.classic_join(group, member_id, request.group_instance_id, after, cluster,
                                       owned_of(said, cluster.topics), is_new=is_new)
    state.write_changes(group.group_id, decision.changes)
    serving.follow(state, group.group_id, decision, request.session_timeout_ms)
    state.shard.timers.cancel(_rejoin_key(group.group_id, member_id))
    state.shard.after(_sync_key(group.group_id, member_id), request.rebalance_timeout_ms,
                      partial(_give_up, state, group.group_id, member_id, decision.current.epoch))
    state.shard.reply(answer, JoinGroupResponse(
        error_code=ErrorCode.NONE, generation_id=decision.current.epoch, protocol_type=CONSUMER_TYPE,
        protocol_name=protocols[0][0], leader="", skip_assignment=False, member_id=member_id, members=[]))
    serving.prepare(state, group.group_id, context)
    serving.settle_kind(state, group.group_id)


def sync(state: GroupShard, group: ConsumerGroup, request: SyncGroupRequest,
         answer: Answer[SyncGroupResponse]) -> None:
    """Give a classic member what it is assigned. Raises RefusedError."""
    member_id = request.member_id
    subscription, classic = _member(group, member_id, request.group_instance_id, request.generation_id)
    name = classic.protocols[0][0]
    if (request.protocol_type not in (None, CONSUMER_TYPE)) or request.protocol_name not in (None, name):
        raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    current = group.current(member_id)
    if group.target_epoch > current.epoch and current.state is not MemberState.UNREVOKED_PARTITIONS:
        _rejoin(state, group, member_id, subscription)
        raise RefusedError(ErrorCode.REBALANCE_IN_PROGRESS)
    state.shard.timers.cancel(_sync_key(group.group_id, member_id))
    serving.restart_session(state, group.group_id, member_id, classic.session_timeout_ms)
    state.shard.reply(answer, SyncGroupResponse(
        error_code=ErrorCode.NONE, protocol_type=request.protocol_type, protocol_name=request.protocol_name,
        assignment=write_assignment(partitions_of(current.assigned), version_of(classic.protocols[0][1]),
                                    state.environment.topics)))


def heartbeat(state: GroupShard, group: ConsumerGroup, request: HeartbeatRequest,
              answer: Answer[HeartbeatResponse]) -> None:
    """Extend a session; with REBALANCE_IN_PROGRESS the member takes its next step. Raises RefusedError."""
    member_id = request.member_id
    subscription, classic = _member(group, member_id, request.group_instance_id, request.generation_id)
    serving.restart_session(state, group.group_id, member_id, classic.session_timeout_ms)
    current = group.current(member_id)
    gets_more = current.state is MemberState.UNRELEASED_PARTITIONS and not _waits(group, member_id)
    if current.epoch < group.target_epoch or current.state is MemberState.UNREVOKED_PARTITIONS or gets_more:
        _rejoin(state, group, member_id, subscription)
        raise RefusedError(ErrorCode.REBALANCE_IN_PROGRESS)
    state.shard.reply(answer, HeartbeatResponse(error_code=ErrorCode.NONE))


def _waits(group: ConsumerGroup, member_id: str) -> bool:
    """Return whether every partition that the member still has to get is another member's."""
    assigned = group.current(member_id).assigned
    return not any(group.is_free_for(member_id, topic_id, index)
                   for topic_id, indexes in group.targets.get(member_id, {}).items()
                   for index in indexes if index not in assigned.get(topic_id, {}))


def leave(state: GroupShard, group: ConsumerGroup, leavers: list[MemberIdentity]) -> list[MemberResponse]:
    """Remove leaving classic members, each with its own result. Raises RefusedError when that could not be written."""
    results, leaving = [], []
    for each in leavers:
        member_id, error = each.member_id, ErrorCode.NONE
        try:
            if each.group_instance_id is not None:
                holder = group.static_members.get(each.group_instance_id, "")
                heartbeats.check_static(group, member_id or holder, each.group_instance_id)
                member_id = holder
            if group.member(member_id).classic is None or member_id in leaving:
                error = ErrorCode.UNKNOWN_MEMBER_ID
            else:
                leaving.append(member_id)
        except RefusedError as refused:
            error = refused.error
        results.append(MemberResponse(member_id=member_id, group_instance_id=each.group_instance_id, error_code=error))
    if leaving:
        serving.remove(state, group, tuple(leaving))
    return results


def _member(group: ConsumerGroup, member_id: str, instance_id: str | None,
            generation_id: int) -> tuple[Subscription, ClassicPart]:
    """Return a classic member; refuse one that is unknown, of the other protocol, or in another generation."""
    if instance_id is not None:
        heartbeats.check_static(group, member_id, instance_id)
    subscription = group.member(member_id)
    if subscription.classic is None:
        raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID)
    if generation_id != group.current(member_id).epoch:
        raise RefusedError(ErrorCode.ILLEGAL_GENERATION)
    return subscription, subscription.classic


# -------------------------------------------------------------------- clocks

def _rejoin_key(group_id: str, member_id: str) -> Key:
    return "rejoin", group_id, member_id


def _sync_key(group_id: str, member_id: str) -> Key:
    return "sync member", group_id, member_id


def _rejoin(state: GroupShard, group: ConsumerGroup, member_id: str, subscription: Subscription) -> None:
    key = _rejoin_key(group.group_id, member_id)
    if key not in state.shard.timers:
        state.shard.after(key, subscription.rebalance_timeout_ms,
                          partial(_give_up, state, group.group_id, member_id, group.current(member_id).epoch))


def _give_up(state: GroupShard, group_id: str, member_id: str, epoch: int) -> None:
    """Remove a member that did not join again, or did not sync, in time."""
    group = state.consumer_group(group_id)
    if group is not None and member_id in group.subscriptions and group.current(member_id).epoch == epoch:
        serving.remove_by_clock(state, group, member_id)
