"""Group coordinator: receives requests, sends answers, with one shard per partition of `__consumer_offsets`.

The driver does the following:

- It reports the partitions: `partition_count`, `shards.start_load` ... `finish_load`, `resign`.
- It passes every request to `handle`.
- It reports commits with `committed`.
- It calls `tick` no later than `deadline_ms`.

Everything runs on one thread, with the time as an argument: milliseconds since 1970, which never decrease. An answer is
passed to the `respond` of its request, during one of these calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar
from uuid import UUID

from kraft.broker.coordinator.answer import Answer, RequestContext
from kraft.broker.coordinator.coordinator import Coordinator, Respond
from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.coordinator.shard import AppendPort, Shard
from kraft.broker.coordinator.shards import Shards
from kraft.broker.groups import (
    expiry,
    group_queries,
    offset_requests,
    refusals,
    routing,
    topic_checks,
    transactional_commits,
)
from kraft.broker.groups.classic.group import ClassicGroup
from kraft.broker.groups.classic.rebalancing import prepare_rebalance, restart_session
from kraft.broker.groups.config import GroupCoordinatorConfig
from kraft.broker.groups.consumer import heartbeats, serving
from kraft.broker.groups.consumer.group import ConsumerGroup
from kraft.broker.groups.shard import Environment, GroupShard, SharePort, TopicView
from kraft.broker.groups.share.group import ShareGroup
from kraft.broker.groups.transactional_commits import TransactionPort
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kraft.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kraft.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kraft.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kraft.protocol.messages.heartbeat_request import HeartbeatRequest
from kraft.protocol.messages.heartbeat_response import HeartbeatResponse
from kraft.protocol.messages.join_group_request import JoinGroupRequest
from kraft.protocol.messages.join_group_response import JoinGroupResponse
from kraft.protocol.messages.leave_group_request import LeaveGroupRequest
from kraft.protocol.messages.leave_group_response import LeaveGroupResponse
from kraft.protocol.messages.list_groups_request import ListGroupsRequest
from kraft.protocol.messages.offset_commit_request import OffsetCommitRequest
from kraft.protocol.messages.offset_commit_response import OffsetCommitResponse
from kraft.protocol.messages.offset_delete_request import OffsetDeleteRequest
from kraft.protocol.messages.offset_delete_response import OffsetDeleteResponse
from kraft.protocol.messages.offset_fetch_request import OffsetFetchRequest
from kraft.protocol.messages.sync_group_request import SyncGroupRequest
from kraft.protocol.messages.sync_group_response import SyncGroupResponse
from kraft.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from kraft.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse

M = TypeVar("M")

FIRST_SYNC_VERSION_WITH_PROTOCOL = 5


class ServedGroups(GroupShard):
    """Shard whose clocks run once it is loaded."""

    def loaded(self) -> None:
        """Give every member a whole session time-out to contact the coordinator again."""
        for group in list(self.groups.values()):
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    restart_session(self, group, member)
                if len(group.members) > self.config.group_max_size:
                    prepare_rebalance(self, group)
            elif isinstance(group, ConsumerGroup):
                serving.start(self, group)
            elif isinstance(group, ShareGroup):
                # Imported here, as below: a node without such groups starts without what serves them.
                from kraft.broker.groups.share.serving import start
                start(self, group)
            else:
                from kraft.broker.groups.streams.serving import start as start_streams
                start_streams(self, group)
        expiry.schedule(self)


class GroupCoordinator(Coordinator[ServedGroups]):
    """Coordinator that serves JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit, TxnOffsetCommit, OffsetFetch,
    OffsetDelete, ListGroups, DescribeGroups, DeleteGroups, ConsumerGroupHeartbeat and ConsumerGroupDescribe in the
    versions of their schemas. `share.requests` and
    `streams.requests` serve those of share and streams groups with it.
    """

    def __init__(self, config: GroupCoordinatorConfig, port: AppendPort, topics: TopicView,
                 new_uuid: Callable[[], UUID], transactions: TransactionPort | None = None,
                 share: SharePort | None = None) -> None:
        """`new_uuid` creates the random part of member ids. Without `transactions`, TxnOffsetCommit is not served.
        Without `share`, share groups are not assigned partitions."""
        self._environment = Environment(config, topics, new_uuid, share)
        super().__init__(Shards(port, self._make_shard, config.offset_commit_timeout_ms), {
            JoinGroupRequest: self._join,
            SyncGroupRequest: self._sync,
            HeartbeatRequest: self._heartbeat,
            LeaveGroupRequest: self._leave,
            OffsetCommitRequest: self._commit,
            OffsetFetchRequest: self._fetch,
            OffsetDeleteRequest: self._delete,
            ListGroupsRequest: self._list,
            DescribeGroupsRequest: self._describe,
            DeleteGroupsRequest: self._delete_groups,
            ConsumerGroupHeartbeatRequest: self._consumer_heartbeat,
            ConsumerGroupDescribeRequest: self._consumer_describe,
        })
        if transactions is not None:
            self._handlers[TxnOffsetCommitRequest] = partial(self._commit_in_transaction, transactions)

    def _make_shard(self, shard: Shard) -> ServedGroups:
        return ServedGroups(shard, self._environment)

    @property
    def config(self) -> GroupCoordinatorConfig:
        """Settings; assign new ones to change them at runtime. Running timers are not changed."""
        return self._environment.config

    @config.setter
    def config(self, config: GroupCoordinatorConfig) -> None:
        self._environment.config = config

    # ---------------------------------------------------------------- the driver's calls

    def marker_appended(self, partition: int, producer_id: int, committed: bool, end_offset: int, now_ms: int) -> None:
        """Apply the marker of a transaction that was appended to a partition of `__consumer_offsets` and ends at
        `end_offset`. The pending offsets of the producer become committed, or are dropped."""
        self.shards.marker_appended(partition, producer_id, committed, end_offset, now_ms)

    def partitions_deleted(self, partitions: Iterable[tuple[str, int]], now_ms: int) -> None:
        """Delete the offsets that groups committed for these deleted (topic, partition) pairs, during the next ticks.

        A shard that cannot write keeps them; they expire like others. Share groups drop the states of the partitions.
        """
        deleted = dict.fromkeys(partitions)
        for _, state in self.shards.active(now_ms):
            expiry.delete_partitions(state, deleted)
            expiry.drop_states(state)

    # ---------------------------------------------------------------- requests about one group

    def in_shard(self, group_id: str, answer: Answer[M], now_ms: int, act: Callable[[ServedGroups], None]) -> None:
        """Run `act` in the shard of a group and turn a refusal into the answer."""
        def checked(state: ServedGroups) -> None:
            state.check_not_deleting(group_id)
            act(state)

        self.shards.run_for_key(group_id, answer, now_ms, checked)

    def _join(self, request: JoinGroupRequest, context: RequestContext, respond: Respond, now_ms: int) -> None:
        if context.api_version == 0:
            request = request.replace(rebalance_timeout_ms=request.session_timeout_ms)
        answer: Answer[JoinGroupResponse] = Answer(
            context, respond, lambda error, _: refusals.join_group(context, error))
        config = self.config
        if not request.group_id:
            respond(refusals.join_group(context, ErrorCode.INVALID_GROUP_ID, request.member_id))
        elif not (config.group_min_session_timeout_ms <= request.session_timeout_ms
                  <= config.group_max_session_timeout_ms):
            respond(refusals.join_group(context, ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
        else:
            self.in_shard(request.group_id, answer, now_ms, lambda state: routing.join(state, request, answer))

    def _sync(self, request: SyncGroupRequest, context: RequestContext, respond: Respond, now_ms: int) -> None:
        answer: Answer[SyncGroupResponse] = Answer(context, respond, lambda error, _: refusals.sync_group(error))
        if (context.api_version >= FIRST_SYNC_VERSION_WITH_PROTOCOL
                and (request.protocol_type is None or request.protocol_name is None)):
            respond(refusals.sync_group(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        elif not request.group_id:
            respond(refusals.sync_group(ErrorCode.INVALID_GROUP_ID))
        else:
            self.in_shard(request.group_id, answer, now_ms, lambda state: routing.sync(state, request, answer))

    def _heartbeat(self, request: HeartbeatRequest, context: RequestContext, respond: Respond, now_ms: int) -> None:
        answer: Answer[HeartbeatResponse] = Answer(context, respond, lambda error, _: refusals.heartbeat(error))
        if not request.group_id:
            respond(refusals.heartbeat(ErrorCode.INVALID_GROUP_ID))
        else:
            self.in_shard(request.group_id, answer, now_ms, lambda state: routing.heartbeat(state, request, answer))

    def _leave(self, request: LeaveGroupRequest, context: RequestContext, respond: Respond, now_ms: int) -> None:
        answer: Answer[LeaveGroupResponse] = Answer(
            context, respond, lambda error, _: refusals.leave_group(request, context, error))
        if not request.group_id:
            respond(refusals.leave_group(request, context, ErrorCode.INVALID_GROUP_ID))
        else:
            self.in_shard(request.group_id, answer, now_ms, lambda state: routing.leave(state, request, answer))

    def _consumer_heartbeat(self, request: ConsumerGroupHeartbeatRequest, context: RequestContext, respond: Respond,
                            now_ms: int) -> None:
        try:
            heartbeats.check_form(request, context.api_version, self.config.consumer.assignors)
        except RefusedError as refused:
            respond(serving.refusal(refused.error, str(refused)))
            return
        answer: Answer[ConsumerGroupHeartbeatResponse] = Answer(context, respond, serving.refusal)
        self.in_shard(request.group_id, answer, now_ms, lambda state: serving.heartbeat(state, request, answer))

    def _commit(self, request: OffsetCommitRequest, context: RequestContext, respond: Respond, now_ms: int) -> None:
        known, refused = topic_checks.split_commit(request, context.api_version, self._environment.topics)
        if not known.topics:
            respond(OffsetCommitResponse(topics=refused))
            return
        answer: Answer[OffsetCommitResponse] = Answer(
            context, lambda response: respond(topic_checks.merge_commit(refused, response)),
            lambda error, _: refusals.offset_commit(known, error))
        self.in_shard(request.group_id, answer, now_ms, lambda state: offset_requests.commit(state, known, answer))

    def _commit_in_transaction(self, transactions: TransactionPort, request: TxnOffsetCommitRequest,
                               context: RequestContext, respond: Respond, now_ms: int) -> None:
        known, refused = topic_checks.split_txn_commit(request, self._environment.topics)
        if not known.topics:
            respond(TxnOffsetCommitResponse(topics=refused))
            return
        answer: Answer[TxnOffsetCommitResponse] = Answer(
            context, lambda response: respond(topic_checks.merge_txn_commit(refused, response)),
            lambda error, _: transactional_commits.refusal(known, error, context.api_version))
        if request.group_id:
            self.in_shard(request.group_id, answer, now_ms, lambda state: transactional_commits.commit(
                state, known, answer, transactions))
        else:
            answer.give(answer.refusal(ErrorCode.INVALID_GROUP_ID))

    def _delete(self, request: OffsetDeleteRequest, context: RequestContext, respond: Respond, now_ms: int) -> None:
        known, refused = topic_checks.split_delete(request, self._environment.topics)
        answer: Answer[OffsetDeleteResponse] = Answer(
            context, lambda response: respond(topic_checks.merge_delete(refused, response)),
            lambda error, _: refusals.offset_delete(error))
        if not request.group_id:
            respond(refusals.offset_delete(ErrorCode.INVALID_GROUP_ID))
        else:
            self.in_shard(request.group_id, answer, now_ms, lambda state: offset_requests.delete(state, known, answer))

    # ---------------------------------------------------------------- requests about several groups

    def _fetch(self, request: OffsetFetchRequest, context: RequestContext, respond: Respond, now_ms: int) -> None:
        group_queries.fetch(self.shards, self._environment.topics, request, context, respond, now_ms)

    def _list(self, request: ListGroupsRequest, context: RequestContext, respond: Respond, now_ms: int) -> None:
        group_queries.list_groups(self.shards, request, context, respond, now_ms)

    def _describe(self, request: DescribeGroupsRequest, context: RequestContext, respond: Respond,
                  now_ms: int) -> None:
        group_queries.describe(self.shards, request, context, respond, now_ms)

    def _consumer_describe(self, request: ConsumerGroupDescribeRequest, context: RequestContext, respond: Respond,
                           now_ms: int) -> None:
        group_queries.describe_consumer_groups(self.shards, request, context, respond, now_ms)

    def _delete_groups(self, request: DeleteGroupsRequest, context: RequestContext, respond: Respond,
                       now_ms: int) -> None:
        group_queries.delete_groups(self.shards, request, context, respond, now_ms)
