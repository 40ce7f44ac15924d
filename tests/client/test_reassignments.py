"""Throttles of reassignments."""

from typing import Self, cast

from kraft.client.cluster import Cluster
from kraft.client.reassignments import FOLLOWERS, LEADERS, unthrottle
from kraft.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from kraft.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse

TOPIC, BROKER, DELETE = 2, 4, 1


class Lagging:
    """Cluster whose nodes have not replayed that a throttle was set: they would answer DescribeConfigs without it."""

    def __init__(self) -> None:
        self.deleted: list[tuple[int, str, str]] = []

    def any(self) -> Self:
        return self

    def node(self, _node_id: int) -> Self:
        return self

    def send(self, request: object, _response: object) -> IncrementalAlterConfigsResponse:
        assert isinstance(request, IncrementalAlterConfigsRequest), f"{request}: what the node says is out of date"
        self.deleted += [(resource.resource_type, resource.resource_name, config.name) for resource in request.resources
                         for config in resource.configs if config.config_operation == DELETE]
        return IncrementalAlterConfigsResponse()


def test_throttles_are_removed_whatever_the_nodes_know_of_them() -> None:
    cluster = Lagging()
    unthrottle(cast("Cluster", cluster), ["a"], [1, 3])
    assert cluster.deleted == [
        (kind, name, f"{direction}.{what}") for kind, name, what in (
            (TOPIC, "a", "replicas"), (BROKER, "1", "rate"), (BROKER, "3", "rate"))
        for direction in (LEADERS, FOLLOWERS)]
