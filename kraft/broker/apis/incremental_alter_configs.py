"""IncrementalAlterConfigs (key 44): levels of this broker's loggers are changed here (KIP-412). A change to the
settings of another broker, or one that cordons a directory which this broker does not have, is refused. All else is
passed on to the active controller.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from kraft.broker.api import Answer, RequestContext, Steps, serves
from kraft.broker.broker import Broker
from kraft.broker.cordons import broker_refusal
from kraft.broker.ports import LOG_LEVELS, ROOT_LOGGER
from kraft.metadata.image import BROKER_LOGGER_RESOURCE
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

SET: Final = 0
DELETE: Final = 1
OPERATIONS: Final = {2: "APPEND", 3: "SUBTRACT"}


class _RefusedError(Exception):
    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


@serves("IncrementalAlterConfigs")
def incremental_alter_configs(broker: Broker, request: IncrementalAlterConfigsRequest, context: RequestContext,
                              answer: Answer) -> Steps:
    """The answers of this broker come first, then those of the controller."""
    own, others, results = [], [], []
    for each in request.resources:
        if each.resource_type == BROKER_LOGGER_RESOURCE:
            own.append(each)
        elif (why := broker_refusal(broker, each)) is not None:
            results.append(AlterConfigsResourceResponse(
                error_code=ErrorCode.INVALID_REQUEST, error_message=why, resource_type=each.resource_type,
                resource_name=each.resource_name))
        else:
            others.append(each)
        yield
    counts = Counter(each.resource_name for each in own)
    for each in own:
        results.append(_alter_loggers(broker, each, twice=counts[each.resource_name] > 1,
                                      validate_only=request.validate_only))
        yield
    if results and not others:
        answer(IncrementalAlterConfigsResponse(responses=results))
        return

    def decided(response: Message) -> None:
        assert isinstance(response, IncrementalAlterConfigsResponse)
        response.responses = [*results, *response.responses]
        answer(response)

    yield from broker.submit_steps(request.replace(resources=others), context, decided)


def _alter_loggers(broker: Broker, resource: AlterConfigsResource, *, twice: bool,
                   validate_only: bool) -> AlterConfigsResourceResponse:
    """All changes of one resource, or none."""
    code, message = ErrorCode.NONE, None
    try:
        _check_resource(broker, resource, twice=twice)
        _check(broker.loggers.levels(), resource.configs)
        if not validate_only:
            _apply(broker, resource.configs)
    except _RefusedError as refusal:
        code, message = refusal.code, str(refusal)
    return AlterConfigsResourceResponse(resource_type=resource.resource_type, resource_name=resource.resource_name,
                                        error_code=code, error_message=message)


def _check_resource(broker: Broker, resource: AlterConfigsResource, *, twice: bool) -> None:
    if twice:
        raise _RefusedError(ErrorCode.INVALID_REQUEST, "the resource is named more than once")
    if resource.resource_name != str(broker.node_id):
        raise _RefusedError(ErrorCode.INVALID_REQUEST, f"broker {resource.resource_name[:20]!r}: this is "
                                                       f"{broker.node_id}, which has loggers of its own only")


def _check(known: Iterable[str], configs: Iterable[AlterableConfig]) -> None:
    loggers = dict.fromkeys(known)
    seen: dict[str, None] = {}
    for config in configs:
        name = config.name[:200]
        if config.name in seen:
            raise _RefusedError(ErrorCode.INVALID_REQUEST, f"{name} is named more than once")
        seen[config.name] = None
        if config.config_operation not in (SET, DELETE):
            operation = OPERATIONS.get(config.config_operation, f"{config.config_operation}: this")
            raise _RefusedError(ErrorCode.INVALID_REQUEST,
                                f"{operation} operation is not allowed for the BROKER_LOGGER resource")
        if config.name not in loggers:
            raise _RefusedError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
        if config.config_operation == DELETE:
            if config.name == ROOT_LOGGER:
                raise _RefusedError(ErrorCode.INVALID_REQUEST,
                                    "Removing the log level of the root logger is not allowed")
        elif config.value is None:
            raise _RefusedError(ErrorCode.INVALID_REQUEST, f"{name}: this operation needs a value")
        elif config.value not in LOG_LEVELS:
            raise _RefusedError(ErrorCode.INVALID_CONFIG,
                                f"Cannot set the log level of {name} to {config.value[:20]} as it is not a supported "
                                f"log level. Valid log levels are {', '.join(LOG_LEVELS)}")


def _apply(broker: Broker, configs: Iterable[AlterableConfig]) -> None:
    for config in configs:
        if config.config_operation == DELETE:
            broker.loggers.unset_level(config.name)
        else:
            assert config.value is not None
            broker.loggers.set_level(config.name, config.value)
