"""Our transactional client and the operators' commands, on a node of ours: its coordinator survives kills."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kraft.cli.command import run
from kraft.client import Cluster
from kraft.client.features import UpgradeType, update_features
from kraft.client.producer import Producer
from kraft.client.topics import create_topic
from kraft.client.transactional_producer import TransactionalProducer
from kraft.client.transactions import GroupMember, Offset
from kraft_native.batch.records import BatchBuilder
from tests.client.transaction_scenarios import (
    late_requests,
    stable_offset,
    transactions_of_a_producer,
    two_phase_commit,
    visible,
)
from tests.integration.process import NodeProcess

SETTINGS = {"transaction.two.phase.commit.enable": "true", "transaction.state.log.num.partitions": "2",
            "offsets.topic.num.partitions": "2"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    process = NodeProcess(tmp_path_factory.mktemp("node") / "data", SETTINGS)
    process.start()
    yield process
    process.stop()
    assert process.alarms() == []


def new_topic(node: NodeProcess, name: str) -> str:
    with Cluster(node.address) as cluster:
        create_topic(cluster, name, 2)
    return name


@pytest.mark.parametrize("level", [2, 1, 0])
def test_transactions_of_a_producer(node: NodeProcess, level: int) -> None:
    with Cluster(node.address) as cluster:
        if level < 2:
            update_features(cluster, {"transaction.version": level}, UpgradeType.SAFE_DOWNGRADE, validate_only=False)
    try:
        transactions_of_a_producer(node.address, new_topic(node, f"level-{level}"))
    finally:
        if level < 2:
            with Cluster(node.address) as cluster:
                update_features(cluster, {"transaction.version": 2}, UpgradeType.UPGRADE, validate_only=False)


def test_requests_that_arrive_after_the_end_are_refused(node: NodeProcess) -> None:
    late_requests(node.address, new_topic(node, "late"))


def test_two_phase_commit(node: NodeProcess) -> None:
    two_phase_commit(node.address, new_topic(node, "two-phase"), keeps_prepared=True)


def test_transactions_survive_kills(node: NodeProcess) -> None:
    """An open transaction continues after a kill, a prepared one is completed, and pending offsets stay pending."""
    new_topic(node, "killed")
    group = GroupMember("killed-group")
    with Cluster(node.address) as cluster:
        producer = TransactionalProducer(cluster, "open-over-a-kill")
        prepared = TransactionalProducer(cluster, "prepared-over-a-kill", two_phase=True)
        producer.send("killed", 0, [(None, b"a")])
        producer.commit_offsets(group, {("killed", 0): Offset(7)})
        prepared.send("killed", 1, [(None, b"b")])
        state = prepared.prepare()
        node.kill()
        node.start()
        cluster.close()
        assert visible(cluster, "killed", 0, 0) == visible(cluster, "killed", 1, 0) == []
        producer.send("killed", 0, [(None, b"c")])
        producer.commit()
        assert visible(cluster, "killed", 0, 2) == [b"a", b"c"]
        assert stable_offset(cluster, group.group, ("killed", 0)) == 7
        again = TransactionalProducer(cluster, "prepared-over-a-kill", two_phase=True, keep_prepared=True)
        assert again.complete(state)
        assert visible(cluster, "killed", 1, 1) == [b"b"]


def test_the_commands(node: NodeProcess, capsys: pytest.CaptureFixture[str]) -> None:
    def rows(*arguments: str, code: int = 0) -> list[dict[str, Any]]:
        assert run([*arguments, "--bootstrap", node.address, "--json"]) == code
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    new_topic(node, "operated")
    with Cluster(node.address) as cluster:
        producer = TransactionalProducer(cluster, "billing", two_phase=True)
        start = producer.send("operated", 0, [(None, b"a")])
        assert "billing" in [row["transactional_id"] for row in rows("transactions", "list", "--state", "Ongoing")]
        (described,) = rows("transactions", "describe", "billing")
        assert (described["state"], described["two_phase"]) == ("Ongoing", True)
        assert described["partitions"] == ["operated/0"]
        assert {row["transactional_id"]: row["prepared"] for row in rows("transactions", "prepared")}["billing"] == \
            f"{described['producer_id']}:{described['producer_epoch']}"
        assert rows("transactions", "find-hanging", "--older-than", "0") == []
        (answer,) = [row for row in rows("why", "operated/0") if row["about"] == "transaction"]
        assert f"offset {start}" in answer["text"]
        assert "'billing'" in answer["text"]
        assert rows("transactions", "abort", "--transactional-id", "billing")[0]["result"] == "aborted"
        assert "billing" not in [row["transactional_id"] for row in rows("transactions", "prepared")]
        assert visible(cluster, "operated", 0, 0) == []


def test_a_hanging_transaction_is_found_and_aborted(
        new_node: Callable[..., NodeProcess], capsys: pytest.CaptureFixture[str]) -> None:
    """A partition that verifies nothing accepts a transaction that no coordinator knows."""
    node = new_node({**SETTINGS, "transaction.partition.verification.enable": "false"})
    new_topic(node, "orders")
    builder = BatchBuilder("none", transactional=True)
    builder.append(b"a")
    with Cluster(node.address) as cluster:
        producer = Producer(cluster, (12_345, 0), transactional_id="lost")
        assert producer.send({("orders", 0): builder.build()}) == {("orders", 0): 0}
        where = ("--bootstrap", node.address, "--json")
        assert run(["transactions", "find-hanging", "--older-than", "0", *where]) == 1
        assert json.loads(capsys.readouterr().out)["producer_id"] == 12_345
        assert run(["why", "orders/0", *where]) == 1
        assert "hangs; `kraft transactions abort orders/0 --start-offset 0` ends it" in capsys.readouterr().out
        assert run(["transactions", "abort", "orders/0", "--start-offset", "0", *where]) == 0
        assert run(["transactions", "find-hanging", "--older-than", "0", *where]) == 0
        assert visible(cluster, "orders", 0, 0) == []
