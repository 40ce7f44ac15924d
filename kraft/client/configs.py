"""Settings of topics, brokers and groups, read and changed one by one."""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from kraft.client.cluster import Cluster
from kraft.client.connection import Connection
from kraft.client.refusals import check
from kraft.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kraft.protocol.messages.describe_configs_response import DescribeConfigsResourceResult, DescribeConfigsResponse
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from kraft.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from kraft.protocol.messages.list_config_resources_response import ListConfigResourcesResponse
from kraft_native.base.errors import InvalidArgumentError

KINDS: Final = {"topic": 2, "broker": 4, "broker-logger": 8, "client-metrics": 16, "group": 32}
SOURCES: Final = {1: "topic", 2: "broker, dynamic", 3: "all brokers, dynamic", 4: "broker's file", 5: "default",
                  6: "broker's log levels", 7: "client metrics", 8: "group"}
SOURCE_TOPIC: Final = 1
SOURCE_DEFAULT: Final = 5
OF_ONE_BROKER: Final = ("broker", "broker-logger")
RESOURCE_TYPES_VERSION: Final = 1
"""Older versions list client metrics only (KIP-1142)."""
ALL_BROKERS: Final = ""  # resource name of the dynamic default of all brokers


class Operation(IntEnum):
    """Operation of an incremental change on a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """Change of one setting; `value` is None for DELETE."""

    name: str
    operation: Operation
    value: str | None


def describe_configs(cluster: Cluster, kind: str, names: Iterable[str], *,
                     documentation: bool = False) -> dict[str, list[DescribeConfigsResourceResult]]:
    """Return the settings of resources of one of KINDS, by resource. `RefusedError` names a resource that was refused.
    """
    found = {}
    for target, resources in _by_target(cluster, kind, names):
        request = DescribeConfigsRequest(include_documentation=documentation, resources=[
            DescribeConfigsResource(resource_type=KINDS[kind], resource_name=name, configuration_keys=None)
            for name in resources])
        for result in target.send(request, DescribeConfigsResponse).results:
            check(f"{kind} {result.resource_name}".rstrip(), result.error_code, result.error_message)
            found[result.resource_name] = sorted(result.configs, key=lambda each: each.name)
    return found


def setting(cluster: Cluster, kind: str, resource: str, name: str) -> str | None:
    """Return one setting of a resource; None when it does not exist or has no value."""
    return settings(cluster, kind, [resource], name)[resource]


def settings(cluster: Cluster, kind: str, resources: Iterable[str], name: str) -> dict[str, str | None]:
    """Return one setting of several resources, by resource."""
    return {resource: next((each.value for each in described if each.name == name), None)
            for resource, described in describe_configs(cluster, kind, resources).items()}


def client_subscriptions(cluster: Cluster) -> dict[str, dict[str, str]]:
    """Return the subscriptions to clients' metrics (KIP-714), each with the settings that it has. `RefusedError` states
    a refusal."""
    kind, connection = KINDS["client-metrics"], cluster.any()
    version = connection.version(ListConfigResourcesRequest.API_KEY)
    request = ListConfigResourcesRequest(resource_types=[kind] if version >= RESOURCE_TYPES_VERSION else [])
    answer = connection.send(request, ListConfigResourcesResponse, version=version)
    check("client metrics", answer.error_code)
    names = sorted(each.resource_name for each in answer.config_resources if each.resource_type == kind)
    return {name: {each.name: each.value for each in found if each.value and each.config_source != SOURCE_DEFAULT}
            for name, found in describe_configs(cluster, "client-metrics", names).items()}


def alter_configs(cluster: Cluster, kind: str, name: str, changes: Iterable[Change], *,
                  validate_only: bool = False) -> None:
    """Apply the changes of one resource, all or none. `RefusedError` states the reason of a refusal."""
    resource = AlterConfigsResource(resource_type=KINDS[kind], resource_name=name, configs=[
        AlterableConfig(name=change.name, config_operation=change.operation, value=change.value)
        for change in changes])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    for target, _names in _by_target(cluster, kind, [name]):
        for result in target.send(request, IncrementalAlterConfigsResponse).responses:
            check(f"{kind} {name}".rstrip(), result.error_code, result.error_message)


def _by_target(cluster: Cluster, kind: str, names: Iterable[str]) -> list[tuple[Connection, list[str]]]:
    """Group names by the connection to query: a broker for its own settings, any node for all else."""
    names = list(names)
    if kind not in OF_ONE_BROKER or names == [ALL_BROKERS]:
        return [(cluster.any(), names)] if names else []
    for name in names:
        if name and not name.isdecimal():
            raise InvalidArgumentError(f"broker {name!r} is no number of a node")
    return [(cluster.node(int(name)) if name else cluster.any(), [name]) for name in names]
