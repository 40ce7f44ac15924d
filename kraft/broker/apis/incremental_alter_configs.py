"""IncrementalAlterConfigs (key 44): changes the levels of this broker's loggers itself (KIP-412).

It refuses a change to the settings of another broker, and one that cordons a directory that this broker does not have.
It also refuses a resource that the request names more than once.
Everything else is passed on to the active controller.
"""

from kraft.broker.api import Answer, RequestContext, Steps, counted_steps
from kraft.broker.broker import Broker
from kraft.broker.cordons import broker_refusal
from kraft.broker.logger_changes import alter_loggers
from kraft.metadata.image import BROKER_LOGGER_RESOURCE
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.incremental_alter_configs_request import (
    IncrementalAlterConfigsRequest,
)
from kraft.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)


def incremental_alter_configs(broker: Broker, request: IncrementalAlterConfigsRequest, context: RequestContext,
                              answer: Answer) -> Steps:
    """Answer with the results of this broker first, then with those of the controller."""
    own, others, results = [], [], []
    counts = yield from counted_steps((each.resource_type, each.resource_name) for each in request.resources)
    for each in request.resources:
        count = counts[each.resource_type, each.resource_name]
        if each.resource_type == BROKER_LOGGER_RESOURCE and count == 1:
            own.append(each)
        elif (why := broker_refusal(broker, each, count)) is not None:
            results.append(AlterConfigsResourceResponse(
                error_code=ErrorCode.INVALID_REQUEST, error_message=why, resource_type=each.resource_type,
                resource_name=each.resource_name))
        else:
            others.append(each)
        yield
    results += yield from alter_loggers(broker.loggers, broker.node_id, own, validate_only=request.validate_only)
    if results and not others:
        answer(IncrementalAlterConfigsResponse(responses=results))
        return

    def decided(response: Message) -> None:
        assert isinstance(response, IncrementalAlterConfigsResponse)
        response.responses = [*results, *response.responses]
        answer(response)

    yield from broker.submit_steps(request.replace(resources=others), context, decided)
