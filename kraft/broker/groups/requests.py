"""Requests that the group coordinator serves.

It imports this module at the first of them: most brokers of a cluster coordinate groups, but a start need not wait for
what serves them.
"""

from __future__ import annotations

from functools import partial

from kraft.broker.coordinator.answer import Answer, RequestContext
from kraft.broker.coordinator.coordinator import Handlers, Respond
from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.groups import (
    group_queries,
    offset_requests,
    refusals,
    routing,
    topic_checks,
    transactional_commits,
)
from kraft.broker.groups.consumer import heartbeats, serving
from kraft.broker.groups.coordinator import GroupCoordinator
from kraft.broker.groups.ports import TopicView, TransactionPort
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

FIRST_SYNC_VERSION_WITH_PROTOCOL = 5


def handlers_of(coordinator: GroupCoordinator, topics: TopicView, transactions: TransactionPort | None) -> Handlers:
    """Return the function of each type of request. Without `transactions`, TxnOffsetCommit is not served."""
    requests = GroupRequests(coordinator, topics)
    handlers: Handlers = {
        JoinGroupRequest: requests.join,
        SyncGroupRequest: requests.sync,
        HeartbeatRequest: requests.heartbeat,
        LeaveGroupRequest: requests.leave,
        OffsetCommitRequest: requests.commit,
        OffsetFetchRequest: requests.fetch,
        OffsetDeleteRequest: requests.delete,
        ListGroupsRequest: requests.list_groups,
        DescribeGroupsRequest: requests.describe,
        DeleteGroupsRequest: requests.delete_groups,
        ConsumerGroupHeartbeatRequest: requests.consumer_heartbeat,
        ConsumerGroupDescribeRequest: requests.consumer_describe,
    }
    if transactions is not None:
        handlers[TxnOffsetCommitRequest] = partial(requests.commit_in_transaction, transactions)
    return handlers


class GroupRequests:
    """One function per type of request, with the arguments of `Coordinator.handle`."""

    def __init__(self, coordinator: GroupCoordinator, topics: TopicView) -> None:
        self._coordinator = coordinator
        self._topics = topics
        self._in_shard = coordinator.in_shard
        self._shards = coordinator.shards

    # ---------------------------------------------------------------- requests about one group

    def join(self, request: JoinGroupRequest, context: RequestContext, respond: Respond, now_ms: int) -> None:
        if context.api_version == 0:
            request = request.replace(rebalance_timeout_ms=request.session_timeout_ms)
        answer: Answer[JoinGroupResponse] = Answer(
            context, respond, lambda error, _: refusals.join_group(context, error))
        config = self._coordinator.config
        if not request.group_id:
            respond(refusals.join_group(context, ErrorCode.INVALID_GROUP_ID, request.member_id))
        elif not (config.group_min_session_timeout_ms <= request.session_timeout_ms
                  <= config.group_max_session_timeout_ms):
            respond(refusals.join_group(context, ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
        else:
            self._in_shard(request.group_id, answer, now_ms, lambda state: routing.join(state, request, answer))

    def sync(self, request: SyncGroupRequest, context: RequestContext, respond: Respond, now_ms: int) -> None:
        answer: Answer[SyncGroupResponse] = Answer(context, respond, lambda error, _: refusals.sync_group(error))
        if (context.api_version >= FIRST_SYNC_VERSION_WITH_PROTOCOL
                and (request.protocol_type is None or request.protocol_name is None)):
            respond(refusals.sync_group(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        elif not request.group_id:
            respond(refusals.sync_group(ErrorCode.INVALID_GROUP_ID))
        else:
            self._in_shard(request.group_id, answer, now_ms, lambda state: routing.sync(state, request, answer))

    def heartbeat(self, request: HeartbeatRequest, context: RequestContext, respond: Respond, now_ms: int) -> None:
        answer: Answer[HeartbeatResponse] = Answer(context, respond, lambda error, _: refusals.heartbeat(error))
        if not request.group_id:
            respond(refusals.heartbeat(ErrorCode.INVALID_GROUP_ID))
        else:
            self._in_shard(request.group_id, answer, now_ms, lambda state: routing.heartbeat(state, request, answer))

    def leave(self, request: LeaveGroupRequest, context: RequestContext, respond: Respond, now_ms: int) -> None:
        answer: Answer[LeaveGroupResponse] = Answer(
            context, respond, lambda error, _: refusals.leave_group(request, context, error))
        if not request.group_id:
            respond(refusals.leave_group(request, context, ErrorCode.INVALID_GROUP_ID))
        else:
            self._in_shard(request.group_id, answer, now_ms, lambda state: routing.leave(state, request, answer))

    def consumer_heartbeat(self, request: ConsumerGroupHeartbeatRequest, context: RequestContext, respond: Respond,
                            now_ms: int) -> None:
        try:
            heartbeats.check_form(request, context.api_version, self._coordinator.config.consumer.assignors)
        except RefusedError as refused:
            respond(serving.refusal(refused.error, str(refused)))
            return
        answer: Answer[ConsumerGroupHeartbeatResponse] = Answer(context, respond, serving.refusal)
        self._in_shard(request.group_id, answer, now_ms, lambda state: serving.heartbeat(state, request, answer))

    def commit(self, request: OffsetCommitRequest, context: RequestContext, respond: Respond, now_ms: int) -> None:
        known, refused = topic_checks.split_commit(request, context.api_version, self._topics)
        if not known.topics:
            respond(OffsetCommitResponse(topics=refused))
            return
        answer: Answer[OffsetCommitResponse] = Answer(
            context, lambda response: respond(topic_checks.merge_commit(refused, response)),
            lambda error, _: refusals.offset_commit(known, error))
        self._in_shard(request.group_id, answer, now_ms, lambda state: offset_requests.commit(state, known, answer))

    def commit_in_transaction(self, transactions: TransactionPort, request: TxnOffsetCommitRequest,
                               context: RequestContext, respond: Respond, now_ms: int) -> None:
        known, refused = topic_checks.split_txn_commit(request, self._topics)
        if not known.topics:
            respond(TxnOffsetCommitResponse(topics=refused))
            return
        answer: Answer[TxnOffsetCommitResponse] = Answer(
            context, lambda response: respond(topic_checks.merge_txn_commit(refused, response)),
            lambda error, _: transactional_commits.refusal(known, error, context.api_version))
        if request.group_id:
            self._in_shard(request.group_id, answer, now_ms, lambda state: transactional_commits.commit(
                state, known, answer, transactions))
        else:
            answer.give(answer.refusal(ErrorCode.INVALID_GROUP_ID))

    def delete(self, request: OffsetDeleteRequest, context: RequestContext, respond: Respond, now_ms: int) -> None:
        known, refused = topic_checks.split_delete(request, self._topics)
        answer: Answer[OffsetDeleteResponse] = Answer(
            context, lambda response: respond(topic_checks.merge_delete(refused, response)),
            lambda error, _: refusals.offset_delete(error))
        if not request.group_id:
            respond(refusals.offset_delete(ErrorCode.INVALID_GROUP_ID))
        else:
            self._in_shard(request.group_id, answer, now_ms, lambda state: offset_requests.delete(state, known, answer))

    # ---------------------------------------------------------------- requests about several groups

    def fetch(self, request: OffsetFetchRequest, context: RequestContext, respond: Respond, now_ms: int) -> None:
        group_queries.fetch(self._shards, self._topics, request, context, respond, now_ms)

    def list_groups(self, request: ListGroupsRequest, context: RequestContext, respond: Respond, now_ms: int) -> None:
        group_queries.list_groups(self._shards, request, context, respond, now_ms)

    def describe(self, request: DescribeGroupsRequest, context: RequestContext, respond: Respond,
                  now_ms: int) -> None:
        group_queries.describe(self._shards, request, context, respond, now_ms)

    def consumer_describe(self, request: ConsumerGroupDescribeRequest, context: RequestContext, respond: Respond,
                           now_ms: int) -> None:
        group_queries.describe_consumer_groups(self._shards, request, context, respond, now_ms)

    def delete_groups(self, request: DeleteGroupsRequest, context: RequestContext, respond: Respond,
                       now_ms: int) -> None:
        group_queries.delete_groups(self._shards, request, context, respond, now_ms)
