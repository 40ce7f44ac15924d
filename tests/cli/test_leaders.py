"""`kraft leaders elect --unclean`: every replica that is known to have all records is offline."""

import pytest
from confluent_kafka import Producer

from kraft.local.cluster import LocalCluster
from tests.cli.nodes import Tool
from tests.cli.test_operators import partitions


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing of the engine runs in this process."""


@pytest.mark.kraft_cluster(brokers=2, controllers=1)
def test_unclean(kraft_cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster, tool = kraft_cluster, Tool(kraft_cluster.bootstrap, capsys)
    tool.json("topics", "create", "u1", "--partitions", 1, "--replication-factor", 2)
    leader = cluster.brokers[partitions(tool, "u1")[0]["leader"]]
    behind = cluster.brokers[3 - leader.node_id]
    behind.kill()
    tool.bootstrap = leader.address
    cluster.wait_until(lambda: partitions(tool, "u1")[0]["isr"] == [leader.node_id], "it is not in sync")
    producer = Producer({"bootstrap.servers": leader.address, "acks": "all"})
    producer.produce("u1", b"lost")
    assert producer.flush(20) == 0
    leader.kill()
    behind.start()
    tool.bootstrap = behind.address
    cluster.wait_until(lambda: partitions(tool, "u1")[0]["leader"] == -1, "nobody leads")
    code, out, _ = tool.run("why", "u1/0")
    assert code == 1
    assert out.startswith("Nobody leads u1/0 since ")
    assert f"broker {leader.node_id} was fenced" in out.splitlines()[0]
    assert tool.run("leaders", "elect", "u1/0")[0] == 1, "a replica that lacks a record may not lead"
    assert tool.run("leaders", "elect", "--unclean", "u1/0") == (
        0, "u1/0: elected\n", "kraft: an unclean election may lose acknowledged records\n")
    cluster.wait_until(lambda: partitions(tool, "u1")[0]["leader"] == behind.node_id, "it leads")
    assert tool.run("leaders", "elect", "--unclean", "u1/0")[1] == "u1/0: was not needed\n"
    assert "nobody in sync was left, and the election was unclean" in tool.run("why", "u1/0")[1].splitlines()[0]
    controller, = cluster.controllers.values()
    assert f"UNCLEAN ELECTION: broker {behind.node_id} leads u1-0" in controller.log()
