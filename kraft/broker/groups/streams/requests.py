"""Requests about streams groups that the group coordinator serves: StreamsGroupHeartbeat (88), StreamsGroupDescribe
(89)."""

from __future__ import annotations

from collections.abc import Callable

from kraft.broker.coordinator.answer import Answer, RequestContext
from kraft.broker.coordinator.coordinator import Respond
from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.groups.coordinator import GroupCoordinator
from kraft.broker.groups.group_queries import describe_each
from kraft.broker.groups.streams import describing, heartbeats, serving
from kraft.broker.groups.streams.serving import Outcome
from kraft.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kraft.protocol.messages.streams_group_describe_response import DescribedGroup, StreamsGroupDescribeResponse
from kraft.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest


def heartbeat(coordinator: GroupCoordinator, request: StreamsGroupHeartbeatRequest, context: RequestContext,
              respond: Callable[[Outcome], None], now_ms: int) -> None:
    """Serve a heartbeat; see `Coordinator.handle`."""
    try:
        heartbeats.check_form(request)
    except RefusedError as refused:
        respond(serving.refusal(refused.error, str(refused)))
        return
    answer: Answer[Outcome] = Answer(context, respond, serving.refusal)
    coordinator.in_shard(request.group_id, answer, now_ms, lambda state: serving.heartbeat(state, request, answer))


def describe(coordinator: GroupCoordinator, request: StreamsGroupDescribeRequest, context: RequestContext,
             respond: Respond, now_ms: int) -> None:
    """Describe groups; see `Coordinator.handle`."""
    describe_each(coordinator.shards, request.group_ids, request.include_authorized_operations, context, now_ms,
                  refused=lambda group_id, error: DescribedGroup(
                      error_code=error, error_message=error.message, group_id=group_id),
                  describe_one=describing.describe,
                  done=lambda groups: respond(StreamsGroupDescribeResponse(groups=groups)))
