"""`kraft cluster` against a node, and the states that it reports as unhealthy."""

from typing import Any

import pytest

from kraft.cli.cluster import size_text, status
from kraft.client import ConnectionFailedError, state
from kraft.client.quorum import Description
from kraft.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.cli.nodes import Started, Tool


def test_status(tool: Tool, node: Started) -> None:
    tool.json("topics", "create", "s1", "--partitions", 3)
    [found] = tool.json("cluster", "status")
    assert found["cluster_id"] == node.ready["cluster_id"]
    assert (found["controller"], found["brokers"], found["problems"]) == (1, 1, [])
    assert found["partitions"] >= 3
    assert found["quorum"] | {"high_watermark": 0} == {"leader": 1, "epoch": 1, "high_watermark": 0, "voters": [1]}
    code, out, complaints = tool.run("cluster", "status")
    assert (code, complaints) == (0, "")
    assert out.splitlines()[-1].split() == ["state", "well"]


def test_describe(tool: Tool, node: Started) -> None:
    [found] = tool.json("cluster", "describe")
    assert found["brokers"] == [{"node_id": 1, "address": node.bootstrap, "rack": None, "fenced": False,
                                 "problem": None}]
    assert [(each["node_id"], each["lag"], each["voter"]) for each in found["quorum"]["replicas"]] == [(1, 0, True)]
    assert [each["path"] for each in found["log_directories"]] == node.ready["data"]
    assert found["features"]["metadata.version"] > 0
    code, out, _ = tool.run("cluster", "describe")
    assert code == 0
    assert [line for line in out.splitlines() if line.islower()]
    assert node.ready["data"][0] in out


def test_problems_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = MetadataResponse(cluster_id="c", controller_id=1, topics=[MetadataResponseTopic(name="t", partitions=[
        MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1]),
        MetadataResponsePartition(partition_index=1, leader_id=-1, replica_nodes=[2], isr_nodes=[2]),
        MetadataResponsePartition(partition_index=2, leader_id=1, replica_nodes=[1], isr_nodes=[1])])])

    class Fake:
        def metadata(self) -> MetadataResponse:
            return metadata

    brokers = [state.BrokerState(1, "a:1", None, False, None), state.BrokerState(2, "a:2", None, True, "fenced")]
    answers: dict[str, Any] = {
        "brokers": lambda _: brokers,
        "ended_leases": lambda _, nodes: {nodes[0].node_id: "its lease ended 12 s ago"},
        "metadata_faults": lambda _, nodes: {nodes[0].node_id: ["topic t: retention.ms: 'x' is not a whole number"]},
        "storage": lambda _, _nodes: state.Storage(["broker 1: t-0 has lost records"], ["broker 1: 2 strays"]),
        "quorum": lambda _: Description(-1, 4, 10, ()),
        "log_directories": lambda _, nodes: [state.LogDirectory(node, "/d", "failed", 0, 0, -1, -1) for node in nodes],
    }
    for name, answer in answers.items():
        monkeypatch.setattr(state, name, answer)
    found = status(Fake())  # type: ignore[arg-type]
    assert found["problems"] == [
        "broker 2: fenced", "broker 1: its lease ended 12 s ago",
        "broker 1 cannot apply committed metadata: topic t: retention.ms: 'x' is not a whole number",
        "broker 1: t-0 has lost records", "the quorum has no leader",
        "1 partitions without a leader: t-1", "1 partitions with replicas that are not in sync: t-0",
        "node 1, /d: failed"]

    def no_controller(_cluster: object) -> Description:
        raise ConnectionFailedError("a:1: timed out")

    monkeypatch.setattr(state, "quorum", no_controller)
    found = status(Fake())  # type: ignore[arg-type]
    assert found["quorum"] is None
    assert "the quorum does not answer: a:1: timed out" in found["problems"]


@pytest.mark.parametrize(("size", "text"), [(-1, "-"), (0, "0 B"), (999, "999 B"), (1000, "1.0 kB"),
                                            (2_500_000, "2.5 MB"), (10**18, "1000.0 PB")])
def test_sizes(size: int, text: str) -> None:
    assert size_text(size) == text
