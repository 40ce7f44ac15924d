"""Committed settings that a node cannot use: it continues to serve, reports them, and uses them once they are
repaired."""

import asyncio
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kraft.cli.cluster import status
from kraft.client.cluster import Cluster
from kraft.client.configs import Change, Operation, alter_configs
from kraft.controller.config_rules import TableRules
from kraft.protocol.error_codes import ErrorCode
from kraft.runtime.replicas.manager import ReplicaManager
from kraft.runtime.server_node import ServerNode
from kraft.runtime.stages.commits import Commits
from kraft_native.segment.config import LogConfig
from tests.runtime.nodes import config, with_node
from tests.runtime.test_server_node import create_topic, fetch, produce
from tests.runtime.upkeep.test_housekeeping import create

COUNT = "kafka_server_broker_metadata_metrics_metadata_apply_error_count"
HOSTILE = {
    "topic": {"retention.ms": "soon", "retention.bytes": "1_0", "segment.index.bytes": "2", "cleanup.policy": "burn",
              "leader.replication.throttled.replicas": "x", "min.insync.replicas": "0", "flush.ms": "-4",
              "file.delete.delay.ms": "", "segment.ms": "9" * 5000, "no.such.thing": "\x00"},
    "broker": {"log.retention.ms": "0", "log.roll.ms": "0", "log.roll.jitter.ms": "-1", "log.flush.interval.ms": "-1",
               "log.index.size.max.bytes": "2", "max.connections": "0", "max.connections.per.ip.overrides": "x",
               "leader.replication.throttled.rate": "-1", "replica.alter.log.dirs.io.max.bytes.per.second": "x",
               "max.connection.creation.rate": "NaN", "producer.id.expiration.ms": "0",
               "log.cleaner.threads": "x", "log.cleaner.backoff.ms": "-9",
               "listener.name.plaintext.max.connections": "0",
               "listener.name.plaintext.max.connection.creation.rate": "x", "num.partitions": "many"},
    "group": {"consumer.session.timeout.ms": "x"},
    "client-metrics": {"interval.ms": "x", "match": "x"},
}


@pytest.fixture
def without_rules(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let the controller commit whatever it receives, as a controller of another version may have done."""
    monkeypatch.setattr(TableRules, "check", lambda *_: None)
    return monkeypatch


def set_all(cluster: Cluster, kind: str, name: str, values: dict[str, str]) -> None:
    alter_configs(cluster, kind, name, [Change(key, Operation.SET, value) for key, value in values.items()])


def delete_all(cluster: Cluster, kind: str, name: str, values: dict[str, str]) -> None:
    alter_configs(cluster, kind, name, [Change(key, Operation.DELETE, None) for key in values])


def on_loop(node: ServerNode, read: Callable[[], Any]) -> Any:
    async def work() -> Any:
        return read()

    return asyncio.run_coroutine_threadsafe(work(), node.parts.housekeeping.cleaner.loop).result()


def log_config_of(node: ServerNode) -> LogConfig:
    partition = node.parts.path.table.get("t", 0)
    assert partition is not None
    return partition.log.config


def serves(cluster: Cluster, value: bytes) -> bool:
    return produce(cluster, "t", value).error_code == ErrorCode.NONE and fetch(cluster, "t")[-1] == value


def metric(node: ServerNode) -> float:
    assert node.metrics is not None
    with urllib.request.urlopen(f"http://127.0.0.1:{node.metrics.port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(COUNT))


@pytest.mark.usefixtures("without_rules")
def test_a_node_serves_on_and_reports_what_it_cannot_use(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = config(tmp_path / "data", kraft_metrics_listener="127.0.0.1:0")

    def first(cluster: Cluster, node: ServerNode) -> None:
        create_topic(cluster, "t", 1)
        set_all(cluster, "topic", "t", {"retention.ms": "99000", "segment.ms": "77000"})
        assert serves(cluster, b"a")
        for kind, values in HOSTILE.items():
            for name in {"topic": ("t",), "broker": ("1", "")}.get(kind, ("x",)):
                set_all(cluster, kind, name, values)
        assert serves(cluster, b"b")
        assert log_config_of(node).retention_ms == 99_000, "the last good one"
        assert log_config_of(node).segment_ms == 77_000
        _reported(cluster, node)

    def _reported(cluster: Cluster, node: ServerNode) -> None:
        reported = [text for text in status(cluster)["problems"] if "cannot apply committed metadata" in text]
        subjects = [text.partition("metadata: ")[2].partition(":")[0] for text in reported]
        assert sorted(subjects) == ["broker settings", "limits of connections", "topic t"]
        topic = next(text for text in reported if "metadata: topic t" in text)
        assert "retention.ms: 'soon' is not a whole number (long) (set for the topic)" in topic
        assert metric(node) >= 3

    def second(cluster: Cluster, node: ServerNode) -> None:
        assert serves(cluster, b"c"), "after a restart"
        assert log_config_of(node).retention_ms == -1, "nothing goes that a right value may keep"
        _reported(cluster, node)
        create_topic(cluster, "u", 1)
        assert produce(cluster, "u", b"x").error_code == ErrorCode.NONE, "also a topic that is new"
        for kind, values in HOSTILE.items():
            for name in {"topic": ("t",), "broker": ("1", "")}.get(kind, ("x",)):
                delete_all(cluster, kind, name, values)
        assert log_config_of(node) == LogConfig(), "repaired without a restart"
        assert metric(node) == 0
        assert not status(cluster)["problems"]

    with_node(settings, first)
    with_node(settings, second)
    caplog.clear()                     # the logged records hold the frames of the failures


def test_a_feature_that_fails_stays_as_it_was(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The other features apply their change whatever the reason of the failure. The failed one applies the next
    change."""
    def work(cluster: Cluster, node: ServerNode) -> None:
        create_topic(cluster, "t", 1)
        with monkeypatch.context() as patched:
            patched.setattr(Commits, "_cordon", lambda _: 1 / 0)
            set_all(cluster, "broker", "", {"log.retention.ms": "12345"})
            assert on_loop(node, node.parts.core.broker.faults.texts) == [
                "cordoned log directories: ZeroDivisionError: division by zero"]
        assert log_config_of(node).retention_ms == 12345
        set_all(cluster, "broker", "", {"log.retention.ms": "23456"})
        assert on_loop(node, node.parts.core.broker.faults.texts) == []
        assert serves(cluster, b"a")

    with_node(config(tmp_path / "data"), work)
    caplog.clear()


def test_a_replica_whose_role_fails_is_given_up_alone(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    install = ReplicaManager._install

    def failing(replicas: ReplicaManager, step: Any) -> None:
        install(replicas, step)
        if step.topic == "bad":
            raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr(ReplicaManager, "_install", failing)

    def work(cluster: Cluster, node: ServerNode) -> None:
        create(cluster, "bad")
        create_topic(cluster, "t", 1)
        assert serves(cluster, b"a")
        parts = node.parts
        found = on_loop(node, lambda: (parts.path.table.get("bad", 0), list(parts.core.replicas.failed)))
        assert found == (None, [("bad", 0)])
        assert not node.stopping

    with_node(config(tmp_path / "data"), work)
    caplog.clear()
