"""Changes of this process's logger levels by IncrementalAlterConfigs (KIP-412), on brokers and controllers."""

from collections.abc import Generator, Iterable, Sequence
from typing import Final

from kraft.broker.api import counted_steps, each_step
from kraft.broker.ports import LOG_LEVELS, ROOT_LOGGER, LoggerPort
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import bounded
from kraft.protocol.messages.incremental_alter_configs_request import AlterableConfig, AlterConfigsResource
from kraft.protocol.messages.incremental_alter_configs_response import AlterConfigsResourceResponse

SET: Final = 0
DELETE: Final = 1
OPERATIONS: Final = {2: "APPEND", 3: "SUBTRACT"}


class _RefusedError(Exception):
    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def alter_loggers(loggers: LoggerPort, node_id: int, resources: Sequence[AlterConfigsResource], *,
                  validate_only: bool) -> Generator[None, None, list[AlterConfigsResourceResponse]]:
    """Change the loggers of this process, one resource per step, and return the results."""
    counts = yield from counted_steps(each.resource_name for each in resources)
    return (yield from each_step(
        lambda each: _alter(loggers, node_id, each, twice=counts[each.resource_name] > 1, validate_only=validate_only),
        resources))


def _alter(loggers: LoggerPort, node_id: int, resource: AlterConfigsResource, *, twice: bool,
           validate_only: bool) -> AlterConfigsResourceResponse:
    """Apply all changes of one resource, or none."""
    code, message = ErrorCode.NONE, None
    try:
        _check_resource(node_id, resource, twice=twice)
        _check(loggers.levels(), resource.configs)
        if not validate_only:
            _apply(loggers, resource.configs)
    except _RefusedError as refusal:
        code, message = refusal.code, bounded(str(refusal))
    return AlterConfigsResourceResponse(resource_type=resource.resource_type, resource_name=resource.resource_name,
                                        error_code=code, error_message=message)


def _check_resource(node_id: int, resource: AlterConfigsResource, *, twice: bool) -> None:
    if twice:
        raise _RefusedError(ErrorCode.INVALID_REQUEST, "the resource is named more than once")
    if resource.resource_name != str(node_id):
        raise _RefusedError(ErrorCode.INVALID_REQUEST, f"broker {resource.resource_name[:20]!r}: this is "
                                                       f"{node_id}, which has loggers of its own only")


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


def _apply(loggers: LoggerPort, configs: Iterable[AlterableConfig]) -> None:
    for config in configs:
        if config.config_operation == DELETE:
            loggers.unset_level(config.name)
        else:
            assert config.value is not None
            loggers.set_level(config.name, config.value)
