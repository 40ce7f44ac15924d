"""Requests about share groups that the group coordinator serves:

- ShareGroupHeartbeat (76), ShareGroupDescribe (77).
- DescribeShareGroupOffsets (90), AlterShareGroupOffsets (91), DeleteShareGroupOffsets (92).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kraft.broker.coordinator.answer import Answer, RequestContext
from kraft.broker.coordinator.coordinator import Respond
from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.coordinator.gather import Gather
from kraft.broker.groups.coordinator import GroupCoordinator
from kraft.broker.groups.group_queries import describe_each
from kraft.broker.groups.share import describing, heartbeats, offsets, serving
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.alter_share_group_offsets_request import AlterShareGroupOffsetsRequest
from kraft.protocol.messages.alter_share_group_offsets_response import AlterShareGroupOffsetsResponse
from kraft.protocol.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
from kraft.protocol.messages.delete_share_group_offsets_response import DeleteShareGroupOffsetsResponse
from kraft.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kraft.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)
from kraft.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from kraft.protocol.messages.share_group_describe_response import DescribedGroup, ShareGroupDescribeResponse
from kraft.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kraft.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse


def handle(coordinator: GroupCoordinator, request: Message, context: RequestContext, respond: Respond,
           now_ms: int) -> None:
    """Serve one request; see `Coordinator.handle`."""
    _HANDLERS[type(request)](coordinator, request, context, respond, now_ms)


def _heartbeat(coordinator: GroupCoordinator, request: ShareGroupHeartbeatRequest, context: RequestContext,
               respond: Respond, now_ms: int) -> None:
    try:
        heartbeats.check_form(request)
    except RefusedError as refused:
        respond(serving.refusal(refused.error, str(refused)))
        return
    answer: Answer[ShareGroupHeartbeatResponse] = Answer(context, respond, serving.refusal)
    coordinator.in_shard(request.group_id, answer, now_ms, lambda state: serving.heartbeat(state, request, answer))


def _describe(coordinator: GroupCoordinator, request: ShareGroupDescribeRequest, context: RequestContext,
              respond: Respond, now_ms: int) -> None:
    describe_each(coordinator.shards, request.group_ids, request.include_authorized_operations, context, now_ms,
                  refused=lambda group_id, error: DescribedGroup(
                      error_code=error, error_message=error.message, group_id=group_id),
                  describe_one=describing.describe,
                  done=lambda groups: respond(ShareGroupDescribeResponse(groups=groups)))


def _describe_offsets(coordinator: GroupCoordinator, request: DescribeShareGroupOffsetsRequest,
                      context: RequestContext, respond: Respond, now_ms: int) -> None:
    def describe(group: DescribeShareGroupOffsetsRequestGroup, index: int) -> None:
        answer: Answer[DescribeShareGroupOffsetsResponseGroup] = Answer(
            context, gather.part(index), lambda error, message: DescribeShareGroupOffsetsResponseGroup(
                group_id=group.group_id, topics=[], error_code=error, error_message=message or error.message))
        coordinator.in_shard(group.group_id, answer, now_ms, lambda state: offsets.describe(state, group, answer))

    gather: Gather[DescribeShareGroupOffsetsResponseGroup] = Gather(
        len(request.groups), lambda groups: respond(DescribeShareGroupOffsetsResponse(groups=groups)))
    for index, group in enumerate(request.groups):
        describe(group, index)


def _alter_offsets(coordinator: GroupCoordinator, request: AlterShareGroupOffsetsRequest, context: RequestContext,
                   respond: Respond, now_ms: int) -> None:
    answer: Answer[AlterShareGroupOffsetsResponse] = Answer(
        context, respond, lambda error, message: AlterShareGroupOffsetsResponse(
            error_code=error, error_message=message or error.message, responses=[]))
    if not request.group_id:
        respond(answer.refusal(ErrorCode.INVALID_GROUP_ID))
    else:
        coordinator.in_shard(request.group_id, answer, now_ms, lambda state: offsets.alter(state, request, answer))


def _delete_offsets(coordinator: GroupCoordinator, request: DeleteShareGroupOffsetsRequest, context: RequestContext,
                    respond: Respond, now_ms: int) -> None:
    answer: Answer[DeleteShareGroupOffsetsResponse] = Answer(
        context, respond, lambda error, message: DeleteShareGroupOffsetsResponse(
            error_code=error, error_message=message or error.message, responses=[]))
    if not request.group_id:
        respond(answer.refusal(ErrorCode.INVALID_GROUP_ID))
    else:
        coordinator.in_shard(request.group_id, answer, now_ms, lambda state: offsets.delete(state, request, answer))


_HANDLERS: Final[dict[type[Message], Callable[[GroupCoordinator, Any, RequestContext, Respond, int], None]]] = {
    ShareGroupHeartbeatRequest: _heartbeat,
    ShareGroupDescribeRequest: _describe,
    DescribeShareGroupOffsetsRequest: _describe_offsets,
    AlterShareGroupOffsetsRequest: _alter_offsets,
    DeleteShareGroupOffsetsRequest: _delete_offsets,
}
