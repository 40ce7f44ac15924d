"""Levels of a node's loggers, read and changed by clients while it runs."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft.client.cluster import Cluster
from kraft.client.configs import Change, Operation, alter_configs, describe_configs
from kraft.client.refusals import RefusedError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from kraft.runtime.base.logger_levels import LoggerLevels
from kraft.runtime.server_node import ServerNode
from tests.runtime.nodes import config, with_node

NAME = "kraft.runtime.server_node"


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    loggers = [logging.root, *map(logging.getLogger, (NAME, "kraft", "kraft.runtime"))]
    before = [each.level for each in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


def described(cluster: Cluster) -> dict[str, str | None]:
    return {each.name: each.value for each in describe_configs(cluster, "broker-logger", ["1"])["1"]}


def test_levels_are_described_set_and_deleted(tmp_path: Path) -> None:
    def work(cluster: Cluster, _node: ServerNode) -> None:
        logging.root.setLevel(logging.WARNING)
        assert (described(cluster)["root"], described(cluster)[NAME]) == ("WARN", "WARN")
        alter_configs(cluster, "broker-logger", "1", [Change(NAME, Operation.SET, "DEBUG")], validate_only=True)
        assert described(cluster)[NAME] == "WARN"
        alter_configs(cluster, "broker-logger", "1", [Change(NAME, Operation.SET, "DEBUG")])
        assert logging.getLogger(NAME).isEnabledFor(logging.DEBUG)
        assert described(cluster)[NAME] == "DEBUG"
        alter_configs(cluster, "broker-logger", "1", [Change("kraft", Operation.SET, "FATAL"),
                                                      Change(NAME, Operation.DELETE, None)])
        assert described(cluster)[NAME] == "FATAL"
        entry = describe_configs(cluster, "broker-logger", ["1"])["1"][0]
        assert (entry.config_source, entry.read_only, entry.is_sensitive, entry.synonyms) == (
            6, False, False, [])

    with_node(config(tmp_path), work)


REFUSED = [
    ([Change("no.such.logger", Operation.SET, "INFO")], "INVALID_CONFIG"),
    ([Change("no.such.logger", Operation.DELETE, None)], "INVALID_CONFIG"),
    ([Change(NAME, Operation.SET, "LOUD")], "INVALID_CONFIG"),
    ([Change(NAME, Operation.SET, "info")], "INVALID_CONFIG"),
    ([Change(NAME, Operation.SET, None)], "INVALID_REQUEST"),
    ([Change(NAME, Operation.APPEND, "INFO")], "APPEND operation is not allowed for the BROKER_LOGGER resource"),
    ([Change(NAME, Operation.SUBTRACT, "INFO")], "SUBTRACT operation is not allowed for the BROKER_LOGGER resource"),
    ([Change("root", Operation.DELETE, None)], "INVALID_REQUEST"),
    ([Change(NAME, Operation.SET, "INFO"), Change(NAME, Operation.SET, "WARN")], "INVALID_REQUEST"),
]


def test_a_refused_request_changes_nothing(tmp_path: Path) -> None:
    def work(cluster: Cluster, _node: ServerNode) -> None:
        before = described(cluster)
        for changes, says in REFUSED:
            with pytest.raises(RefusedError, match=says):
                alter_configs(cluster, "broker-logger", "1", [Change("kraft", Operation.SET, "TRACE"), *changes])
        assert described(cluster) == before

    with_node(config(tmp_path), work)


def test_loggers_beside_other_resources(tmp_path: Path) -> None:
    """Each resource has its own answer; another broker's loggers are refused."""
    def work(cluster: Cluster, node: ServerNode) -> None:
        request = IncrementalAlterConfigsRequest(resources=[
            AlterConfigsResource(resource_type=4, resource_name="", configs=[
                AlterableConfig(name="log.retention.ms", config_operation=0, value="5")]),
            *(AlterConfigsResource(resource_type=8, resource_name=name, configs=[
                AlterableConfig(name=NAME, config_operation=0, value="ERROR")]) for name in ("1", "2", ""))])
        answer = cluster.any().send(request, IncrementalAlterConfigsResponse)
        assert sorted((each.resource_type, each.resource_name, each.error_code) for each in answer.responses) == [
            (4, "", ErrorCode.NONE), (8, "", ErrorCode.INVALID_REQUEST), (8, "1", ErrorCode.NONE),
            (8, "2", ErrorCode.INVALID_REQUEST)]
        assert described(cluster)[NAME] == "ERROR"
        assert node.parts.core.broker.integer("log.retention.ms") == 5
        with pytest.raises(RefusedError, match="INVALID_REQUEST"):
            describe_configs(cluster, "broker-logger", [""])

    with_node(config(tmp_path), work)


def test_levels_between_kafkas_words() -> None:
    logging.getLogger(NAME).setLevel(25)
    assert LoggerLevels().levels()[NAME] == "INFO"
    logging.getLogger(NAME).setLevel(1)
    assert LoggerLevels().levels()[NAME] == "TRACE"
