"""Our transactional client and the operators' commands, on a node of Kafka's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kraft.cli.command import run
from kraft.client import Cluster
from kraft.client.features import UpgradeType, update_features
from kraft.client.topics import create_topic
from kraft.client.transactional_producer import TransactionalProducer
from tests.client.transaction_scenarios import late_requests, transactions_of_a_producer, two_phase_commit, visible
from tests.peer.kafka import KafkaNode, kafka_node, require_kafka

pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNode]:
    require_kafka()
    with kafka_node(tmp_path_factory.mktemp("kafka") / "home", **{
            "unstable.api.versions.enable": "true", "transaction.two.phase.commit.enable": "true",
            "num.partitions": "2"}) as process:
        process.start()
        yield process


@pytest.mark.parametrize("level", [2, 1, 0])
def test_transactions_of_a_producer(node: KafkaNode, level: int) -> None:
    with Cluster(node.bootstrap) as cluster:
        if level < 2:
            update_features(cluster, {"transaction.version": level}, UpgradeType.SAFE_DOWNGRADE, validate_only=False)
        create_topic(cluster, f"level-{level}", 2)
    try:
        transactions_of_a_producer(node.bootstrap, f"level-{level}")
    finally:
        if level < 2:
            with Cluster(node.bootstrap) as cluster:
                update_features(cluster, {"transaction.version": 2}, UpgradeType.UPGRADE, validate_only=False)


def test_requests_that_arrive_after_the_end_are_refused(node: KafkaNode) -> None:
    with Cluster(node.bootstrap) as cluster:
        create_topic(cluster, "late", 2)
    late_requests(node.bootstrap, "late")


def test_two_phase_commit(node: KafkaNode) -> None:
    with Cluster(node.bootstrap) as cluster:
        create_topic(cluster, "two-phase", 2)
    two_phase_commit(node.bootstrap, "two-phase", keeps_prepared=False)


def test_the_commands(node: KafkaNode, capsys: pytest.CaptureFixture[str]) -> None:
    def rows(*arguments: str, code: int = 0) -> list[dict[str, Any]]:
        assert run([*arguments, "--bootstrap", node.bootstrap, "--json"]) == code
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    with Cluster(node.bootstrap) as cluster:
        create_topic(cluster, "orders", 2)
        producer = TransactionalProducer(cluster, "billing")
        start = producer.send("orders", 0, [(None, b"a")])
        assert [row["transactional_id"] for row in rows("transactions", "list", "--state", "Ongoing")] == ["billing"]
        (described,) = rows("transactions", "describe", "billing")
        assert (described["state"], described["partitions"]) == ("Ongoing", ["orders/0"])
        assert rows("transactions", "find-hanging", "--older-than", "0") == []
        assert rows("transactions", "abort", "--transactional-id", "billing")[0]["result"] == "aborted"
        assert visible(cluster, "orders", 0, 0) == []
        assert start == 0
