"""ListConfigResources (key 74), versions 0 to 1: the resources that DescribeConfigs can describe.

Version 0 lists client-metrics subscriptions only.
"""

from kraft.broker.api import Answer, RequestContext, serves
from kraft.broker.broker import Broker
from kraft.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from kraft.protocol.messages.list_config_resources_response import ConfigResource, ListConfigResourcesResponse

TYPES = (TOPIC_RESOURCE, BROKER_RESOURCE, BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE)


@serves("ListConfigResources")
def list_config_resources(broker: Broker, request: ListConfigResourcesRequest, context: RequestContext,
                          answer: Answer) -> None:
    """Answer with all types when the request names none; UNSUPPORTED_VERSION for an unknown type."""
    wanted = list(request.resource_types) or list(TYPES)
    if context.version == 0:
        wanted = [CLIENT_METRICS_RESOURCE]
    if any(each not in TYPES for each in wanted):
        answer(ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
        return
    answer(ListConfigResourcesResponse(config_resources=[
        ConfigResource(resource_name=name, resource_type=kind)
        for kind in wanted for name in _names(broker, kind)]))


def _names(broker: Broker, kind: int) -> list[str]:
    if kind == TOPIC_RESOURCE:
        return sorted(broker.image.topic_ids)
    if kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE):
        return [str(each) for each in sorted(broker.image.brokers)]
    return sorted(resource.name for resource in broker.image.configs if resource.type == kind)
