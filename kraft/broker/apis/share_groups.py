"""Requests about share groups that the group coordinator serves:

- ShareGroupHeartbeat (76), ShareGroupDescribe (77).
- DescribeShareGroupOffsets (90), AlterShareGroupOffsets (91), DeleteShareGroupOffsets (92).

While the feature share.version is 0 they are UNSUPPORTED_VERSION. Large ones are decoded in steps; the coordinator
limits a heartbeat (`heartbeats.check_form`), and requests of operators are served in parts.
"""

from typing import Any

from kraft.broker.api import Answer, RequestContext, Steps, each_step
from kraft.broker.broker import Broker
from kraft.broker.coordinator.answer import RequestContext as CoordinatorContext
from kraft.broker.groups.share.requests import handle
from kraft.broker.request_parts import serve_in_parts
from kraft.metadata.versions import SHARE_VERSION
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)
from kraft.protocol.messages.share_group_describe_response import DescribedGroup, ShareGroupDescribeResponse


def serve(broker: Broker, request: Any, context: RequestContext, answer: Answer) -> Steps:
    """Pass the request to the coordinator, which answers now or when its records are committed."""
    if broker.image.features.get(SHARE_VERSION, 0) <= 0:
        yield from _refuse(request, answer)
        return
    coordinator_context = CoordinatorContext(context.version, context.client_id, f"/{context.client_host}")

    def send(part: Message, answer_part: Answer) -> None:
        handle(broker.groups, part, coordinator_context, answer_part, context.now_ms)

    yield from serve_in_parts(request, send, answer, context.run)


def _refuse(request: Any, answer: Answer) -> Steps:
    if request.API_KEY == ApiKey.SHARE_GROUP_DESCRIBE:
        described = yield from each_step(
            lambda group_id: DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION),
            request.group_ids)
        answer(ShareGroupDescribeResponse(groups=described))
    elif request.API_KEY == ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS:
        groups = yield from each_step(
            lambda group: DescribeShareGroupOffsetsResponseGroup(
                group_id=group.group_id, topics=[], error_code=ErrorCode.UNSUPPORTED_VERSION,
                error_message=ErrorCode.UNSUPPORTED_VERSION.message),
            request.groups)
        answer(DescribeShareGroupOffsetsResponse(groups=groups))
    else:
        response: Any = API_BY_KEY[request.API_KEY].response
        answer(response(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=ErrorCode.UNSUPPORTED_VERSION.message))
