"""AlterConfigs (key 33): the active controller decides.

This broker refuses what only it can judge: changes to the settings of another broker, and directories in
`cordoned.log.dirs` that it does not have. It also refuses a resource that the request names more than once."""

from kraft.broker.api import Answer, RequestContext, Steps, counted_steps
from kraft.broker.broker import Broker
from kraft.broker.cordons import broker_refusal
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.alter_configs_request import AlterConfigsRequest
from kraft.protocol.messages.alter_configs_response import AlterConfigsResourceResponse, AlterConfigsResponse


def alter_configs(broker: Broker, request: AlterConfigsRequest, context: RequestContext, answer: Answer) -> Steps:
    """Change each resource on its own; the results of those that this broker refuses come first."""
    refused, rest = [], []
    counts = yield from counted_steps((each.resource_type, each.resource_name) for each in request.resources)
    for each in request.resources:
        count = counts[each.resource_type, each.resource_name]
        if (why := broker_refusal(broker, each, count)) is None:
            rest.append(each)
        else:
            refused.append(AlterConfigsResourceResponse(
                error_code=ErrorCode.INVALID_REQUEST, error_message=why, resource_type=each.resource_type,
                resource_name=each.resource_name))
        yield

    def decided(response: Message) -> None:
        assert isinstance(response, AlterConfigsResponse)
        response.responses = [*refused, *response.responses]
        answer(response)

    if rest or not refused:
        yield from broker.submit_steps(request.replace(resources=rest), context, decided)
    else:
        answer(AlterConfigsResponse(responses=refused))
