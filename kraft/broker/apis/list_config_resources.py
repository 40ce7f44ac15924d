"""ListConfigResources (key 74), versions 0 to 1: the resources that DescribeConfigs can describe.

Version 0 lists client-metrics subscriptions only.
"""

from collections.abc import Collection, Generator

from kraft.broker.api import Answer, RequestContext, Steps, counted_steps, sorted_steps
from kraft.broker.broker import Broker
from kraft.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    MetadataImage,
)
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from kraft.protocol.messages.list_config_resources_response import ConfigResource, ListConfigResourcesResponse

TYPES = (TOPIC_RESOURCE, BROKER_RESOURCE, BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE)


def list_config_resources(broker: Broker, request: ListConfigResourcesRequest, context: RequestContext,
                          answer: Answer) -> Steps:
    """Answer with all types when the request names none; UNSUPPORTED_VERSION for an unknown type. A type that is named
    twice is listed once."""
    wanted: Collection[int] = (yield from counted_steps(request.resource_types)) or TYPES
    if context.version == 0:
        wanted = (CLIENT_METRICS_RESOURCE,)
    if any(each not in TYPES for each in wanted):
        answer(ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
        return
    found: list[ConfigResource] = []
    for kind in wanted:
        for name in (yield from _names(broker.image, kind)):
            found.append(ConfigResource(resource_name=name, resource_type=kind))
            yield
    answer(ListConfigResourcesResponse(config_resources=found))


def _names(image: MetadataImage, kind: int) -> Generator[None, None, list[str]]:
    if kind == TOPIC_RESOURCE:
        return (yield from sorted_steps(image.topic_ids))
    if kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE):
        return [str(each) for each in sorted(image.brokers)]
    return (yield from sorted_steps(resource.name for resource in image.configs if resource.type == kind))
