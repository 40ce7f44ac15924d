"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs: the permission follows from the type of each resource."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from kraft.broker.access.rules import Call, Check, Elements, Place
from kraft.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Struct
from kraft.protocol.messages import alter_configs_response, incremental_alter_configs_response
from kraft.protocol.messages.describe_configs_response import DescribeConfigsResult
from kraft.security.acls import Operation, ResourceType


def _checks(operation: Operation) -> dict[int, Check]:
    on_topic = Check(operation, ResourceType.TOPIC, "resources.resource_name", "settings of a topic")
    on_group = Check(operation, ResourceType.GROUP, "resources.resource_name", "settings of a group")
    on_cluster = Check(operation, ResourceType.CLUSTER, remark="settings of a broker, its loggers, or client metrics")
    return {TOPIC_RESOURCE: on_topic, GROUP_RESOURCE: on_group, BROKER_RESOURCE: on_cluster,
            BROKER_LOGGER_RESOURCE: on_cluster, CLIENT_METRICS_RESOURCE: on_cluster}


DESCRIBE: Final = _checks(Operation.DESCRIBE_CONFIGS)
ALTER: Final = _checks(Operation.ALTER_CONFIGS)
ALTER_ALL: Final = {kind: check for kind, check in ALTER.items() if kind != BROKER_LOGGER_RESOURCE}
"""The same without loggers, of which AlterConfigs knows none."""
CONTROLLERS_ALTER: Final = {**ALTER, BROKER_LOGGER_RESOURCE: Check(
    Operation.CLUSTER_ACTION, ResourceType.CLUSTER, remark="loggers of a controller")}


def further(checks: Mapping[int, Check]) -> tuple[Check, ...]:
    """Return the checks of resources other than topics, each once."""
    return tuple(dict.fromkeys(check for kind, check in checks.items() if kind != TOPIC_RESOURCE))


def _pick(checks: Mapping[int, Check], _call: Call, resource: Any) -> Check | None:
    """Return the check of a resource's type; None for an unknown type, which the handler refuses."""
    return checks.get(resource.resource_type)


def _denied(create: Callable[..., Struct], code: ErrorCode, resource: Any) -> Struct:
    """Return the result of a refused resource, whose fields are the same in all three APIs."""
    return create(error_code=code, error_message=code.message, resource_type=resource.resource_type,
                  resource_name=resource.resource_name)


DESCRIBED: Final = Elements(
    "resources", "results", DESCRIBE[TOPIC_RESOURCE], partial(_denied, DescribeConfigsResult),
    pick=partial(_pick, DESCRIBE))
ALTERED: Final = Elements(
    "resources", "responses", ALTER[TOPIC_RESOURCE],
    partial(_denied, alter_configs_response.AlterConfigsResourceResponse),
    place=Place.FIRST, pick=partial(_pick, ALTER_ALL))
INCREMENTALLY_ALTERED: Final = Elements(
    "resources", "responses", ALTER[TOPIC_RESOURCE],
    partial(_denied, incremental_alter_configs_response.AlterConfigsResourceResponse),
    place=Place.FIRST, pick=partial(_pick, ALTER))
INCREMENTALLY_ALTERED_BY_CONTROLLERS: Final = INCREMENTALLY_ALTERED._replace(pick=partial(_pick, CONTROLLERS_ALTER))
