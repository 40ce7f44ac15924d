"""ConsumerGroupHeartbeat (68) and ConsumerGroupDescribe (69), which the group coordinator serves.

Their requests are decoded in steps: a member may name many topics and partitions. The coordinator limits them
(`heartbeats.check_form`), so what it does in one step is short.
"""

from functools import partial
from typing import Any

from kraft.broker.api import Answer, RequestContext, Steps, each_step
from kraft.broker.broker import Broker
from kraft.broker.coordinator.answer import RequestContext as CoordinatorContext
from kraft.broker.coordinator.answer import everything
from kraft.broker.request_parts import serve_in_parts
from kraft.metadata.versions import GROUP_VERSION
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse, DescribedGroup
from kraft.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from kraft.security.access import Access
from kraft.security.acls import Operation, ResourceType


def serve(broker: Broker, request: Any, context: RequestContext, answer: Answer) -> Steps:
    """Pass the request to the coordinator, which answers now or when its records are committed. While the feature
    group.version is 0, or the node's settings leave the consumer protocol out, it is UNSUPPORTED_VERSION."""
    if not _has_consumer_groups(broker):
        yield from _refuse(request, answer)
        return
    may_describe = everything if context.access is None else partial(_may_describe, context.access)
    coordinator_context = CoordinatorContext(
        context.version, context.client_id, f"/{context.client_host}", may_describe=may_describe)
    yield from serve_in_parts(
        request, lambda part, answer_part: broker.groups.handle(part, coordinator_context, answer_part, context.now_ms),
        answer, context.run)


def _has_consumer_groups(broker: Broker) -> bool:
    listed = broker.setting("group.coordinator.rebalance.protocols")
    return (broker.image.features.get(GROUP_VERSION, 0) > 0 and isinstance(listed, list | tuple)
            and "consumer" in [str(each).lower() for each in listed])


def _refuse(request: Any, answer: Answer) -> Steps:
    if request.API_KEY == ApiKey.CONSUMER_GROUP_HEARTBEAT:
        answer(ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
        return
    groups = yield from each_step(_refused, request.group_ids)
    answer(ConsumerGroupDescribeResponse(groups=groups))


def _refused(group_id: str) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)


def _may_describe(access: Access, topic: str) -> bool:
    return access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic)
