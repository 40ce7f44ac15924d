"""Operations on several brokers: reassign, elect, drain, decommission."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kraft.client import Cluster
from kraft.client.configs import describe_configs
from kraft.client.reassignments import ongoing
from kraft.local.cluster import LocalCluster
from tests.cli.nodes import Tool

pytestmark = pytest.mark.kraft_cluster(brokers=3, controllers=0)


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing of the engine runs in this process."""


@pytest.fixture
def tool(kraft_cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> Tool:
    return Tool(kraft_cluster.bootstrap, capsys)


def partitions(tool: Tool, topic: str) -> list[dict[str, Any]]:
    with Cluster(tool.bootstrap) as cluster:
        return [{"replicas": each.replica_nodes, "isr": each.isr_nodes, "leader": each.leader_id}
                for each in sorted(cluster.topic(topic).partitions, key=lambda each: each.partition_index)]


def throttles(cluster: Cluster, kind: str, name: str) -> dict[str, str | None]:
    return {each.name: each.value for each in describe_configs(cluster, kind, [name])[name]
            if ".throttled." in each.name and each.config_source in (1, 2)}


def test_reassign(tool: Tool, kraft_cluster: LocalCluster, tmp_path: Path) -> None:
    tool.json("topics", "create", "r1", "--partitions", 2, "--replication-factor", 1)
    plan = tmp_path / "plan.json"
    code, out, complaints = tool.run("topics", "reassign", "plan", "r1", "--replication-factor", 3, "--out", plan)
    assert (code, complaints) == (0, "")
    assert out.splitlines()[-1] == "2 partitions to change, 0 B to copy"
    assert {len(each["replicas"]) for each in json.loads(plan.read_text())["partitions"]} == {3}
    done = tool.json("topics", "reassign", "start", plan)
    assert [(each["partition"], each["result"]) for each in done] == [("r1/0", "done"), ("r1/1", "done")]
    assert all(sorted(each["replicas"]) == sorted(each["isr"]) == [1, 2, 3] for each in partitions(tool, "r1"))
    assert {each["state"] for each in tool.json("topics", "reassign", "status", plan)} == {"done"}
    assert tool.json("topics", "reassign", "status") == []
    assert tool.json("topics", "reassign", "plan", "r1")[0]["partitions"] == [], "it is as it should be"


def test_throttle_and_cancel(tool: Tool, kraft_cluster: LocalCluster, tmp_path: Path) -> None:
    tool.json("topics", "create", "r2", "--partitions", 1, "--replication-factor", 1)
    [now] = partitions(tool, "r2")
    source = now["replicas"][0]
    away, third = (each for each in kraft_cluster.brokers.values() if each.node_id != source)
    away.kill()     # a replica that moves there never arrives
    kraft_cluster.wait_until(lambda: away.node_id not in kraft_cluster.seen_by(third), "it is fenced")
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [
        {"topic": "r2", "partition": 0, "replicas": [source, third.node_id, away.node_id]}]}))
    tool.bootstrap = third.address
    code, _, complaints = tool.run("topics", "reassign", "start", plan, "--no-wait", "--throttle", 1000)
    assert code == 1
    assert f"node {away.node_id}: the cluster has" in complaints
    plan.write_text(json.dumps({"version": 1, "partitions": [
        {"topic": "r2", "partition": 0, "replicas": [source, third.node_id]}]}))
    producer = Producer({"bootstrap.servers": third.address})
    for _ in range(500):
        producer.produce("r2", bytes(10_000))       # more than a follower gets in one fetch; the rest takes an hour
    assert producer.flush(20) == 0
    tool.json("topics", "reassign", "start", plan, "--no-wait", "--throttle", 1000)
    with Cluster(third.address) as cluster:
        # Each broker learns of a change a moment after it was made.
        kraft_cluster.wait_until(lambda: throttles(cluster, "topic", "r2") == {
            "leader.replication.throttled.replicas": f"0:{source}",
            "follower.replication.throttled.replicas": f"0:{third.node_id}"}, "replicas are throttled")
        kraft_cluster.wait_until(lambda: set(throttles(cluster, "broker", str(source)).values()) == {"1000"},
                                 "their rate is set")
        assert tool.run("topics", "reassign", "cancel", "r2")[0] == 0
        kraft_cluster.wait_until(lambda: throttles(cluster, "topic", "r2") == {}, "none of the topic is throttled")
        kraft_cluster.wait_until(lambda: throttles(cluster, "broker", str(source)) == {}, "nor of the broker")
        assert ongoing(cluster) == {}


def test_elect(tool: Tool, kraft_cluster: LocalCluster) -> None:
    tool.json("topics", "create", "e1", "--partitions", 3, "--replication-factor", 3)
    victim = partitions(tool, "e1")[0]["replicas"][0]
    kraft_cluster.brokers[victim].kill()
    other = next(each for each in kraft_cluster.brokers.values() if each.running)
    tool.bootstrap = other.address
    kraft_cluster.wait_until(lambda: partitions(tool, "e1")[0]["leader"] not in (victim, -1), "another one leads")
    code, _, complaints = tool.run("leaders", "elect", "e1/0")
    assert code == 1
    assert "PREFERRED_LEADER_NOT_AVAILABLE" in complaints
    kraft_cluster.brokers[victim].start()
    kraft_cluster.wait_until(lambda: victim in partitions(tool, "e1")[0]["isr"], "it is in sync again")
    assert tool.json("leaders", "elect", "e1/0") in (
        [{"topic": "e1", "partition": 0, "result": result}] for result in ("elected", "was not needed"))
    kraft_cluster.wait_until(lambda: partitions(tool, "e1")[0]["leader"] == victim, "the preferred one leads")
    assert tool.run("leaders", "elect", "--all")[1] == "every partition has the leader that it should have\n"
    assert tool.run("leaders", "elect", "e1/9")[0] == 1
    assert tool.run("leaders", "elect")[0] == 2


def test_drain_and_decommission(tool: Tool, kraft_cluster: LocalCluster) -> None:
    tool.json("topics", "create", "d1", "--partitions", 3, "--replication-factor", 2)
    before = {each["broker"]: each for each in tool.json("brokers", "list")}
    assert {each["state"] for each in before.values()} == {"up"}
    assert sum(each["replicas"] for each in before.values()) == 6
    assert sum(each["leads"] for each in before.values()) == 3
    victim = tool.json("quorum", "status")[0]["leader"]      # whose removal ends its leadership
    assert tool.json("brokers", "drain", victim) == [{"broker": victim, "result": "drained"}]
    assert all(victim not in each["replicas"] for each in partitions(tool, "d1"))
    tool.bootstrap = next(each.address for each in kraft_cluster.brokers.values() if each.node_id != victim)
    code, _, complaints = tool.run("brokers", "decommission", victim)
    assert (code, kraft_cluster.brokers[victim].running) == (1, True)
    assert f"node {victim} is a voting controller" in complaints
    assert tool.run("quorum", "remove", victim)[0] == 0
    stopper = threading.Thread(target=kraft_cluster.brokers[victim].stop)
    stopper.start()
    code, out, _ = tool.run("brokers", "decommission", victim)
    stopper.join()
    assert (code, out) == (0, f"broker {victim}: taken out of the cluster\n")
    assert victim not in [each["broker"] for each in tool.json("brokers", "list")]
    assert "the cluster has none" in tool.run("brokers", "drain", 77)[2]


def test_a_voter_that_the_majority_needs_is_not_removed(tool: Tool, kraft_cluster: LocalCluster) -> None:
    [status] = tool.json("quorum", "status")
    dead, needed = (each for each in status["voters"] if each != status["leader"])
    kraft_cluster.brokers[dead].kill()
    tool.bootstrap = kraft_cluster.brokers[needed].address

    def is_missed() -> bool:
        caught_up_ms = {each["node_id"]: each["caught_up_ms"] for each in tool.json("quorum", "describe")}
        return 0 <= caught_up_ms[dead] < caught_up_ms[status["leader"]] - 3000

    kraft_cluster.wait_until(is_missed, "it lags")
    code, out, _ = tool.run("quorum", "status", "--json")
    assert json.loads(out)["failures_survived"] == 0, "one is missing already"
    code, _, complaints = tool.run("quorum", "remove", needed)
    assert code == 1
    assert f"without {needed} 2 of the voters" in complaints
    assert f"but {dead} cannot be reached" in complaints
    assert tool.run("quorum", "remove", dead)[0] == 0
    assert tool.run("quorum", "remove", needed)[0] == 0
    [status] = tool.json("quorum", "status")
    for words in (("brokers", "decommission"), ("quorum", "remove")):
        code, _, complaints = tool.run(*words, status["leader"])
        assert code == 1
        assert f"node {status['leader']} is the last voter of the metadata quorum" in complaints
    assert f"node {needed} is not a voter; voters: {status['leader']}" in tool.run("quorum", "remove", needed)[2]
