"""The commands that query a cluster, on a node of Kafka's: what they promise of our nodes holds there, too.

Kafka's brokers learn of a change a moment after its controller has answered.
"""

from collections.abc import Iterator
from typing import cast

import pytest

from tests.cli.nodes import Started, Tool
from tests.cli.test_records import Pipe
from tests.integration.admin import wait_until
from tests.peer.kafka import KafkaNode, java, kafka_node, require_kafka

pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNode]:
    require_kafka()
    with kafka_node(tmp_path_factory.mktemp("kafka") / "home") as started:
        started.start()
        yield started


@pytest.fixture
def tool(node: KafkaNode, capsys: pytest.CaptureFixture[str]) -> Tool:
    return Tool(node.bootstrap, capsys)


@pytest.fixture
def pipe(node: KafkaNode) -> Pipe:
    return Pipe(cast("Started", node))


def test_topics(tool: Tool) -> None:
    [made] = tool.json("topics", "create", "t", "--partitions", 2, "--config", "retention.ms=60000")
    assert (made["topic"], made["result"], made["partitions"], made["replication_factor"]) == ("t", "created", 2, 1)
    assert tool.run("topics", "alter", "t", "--partitions", 3) == (0, "t: has 3 partitions\n", "")
    expected = {"topic": "t", "topic_id": made["topic_id"], "partitions": 3, "replication_factor": 1, "internal": False}
    wait_until(lambda: expected in tool.json("topics", "list"), "the topic has three partitions")
    [described] = tool.json("topics", "describe", "t")
    assert described["configs"] == {"retention.ms": "60000"}
    assert described["partitions"][2] == {"partition": 2, "leader": 1, "leader_epoch": 0, "replicas": [1], "isr": [1],
                                          "offline": [], "start_offset": 0, "end_offset": 0}
    code, out, complaint = tool.run("topics", "create", "t", "not/allowed")
    assert (code, out) == (1, "")
    assert ["TOPIC_ALREADY_EXISTS" in line or "INVALID_TOPIC" in line for line in complaint.splitlines()] == [True] * 2
    assert tool.json("topics", "delete", "t") == [{"topic": "t", "result": "deleted"}]
    wait_until(lambda: "t" not in {row["topic"] for row in tool.json("topics", "list")}, "the topic is deleted")


def test_configs(tool: Tool) -> None:
    tool.json("topics", "create", "c")
    assert tool.run("configs", "set", "topic", "c", "retention.ms=5000", "cleanup.policy+=compact") == (
        0, "topic c: changed: retention.ms, cleanup.policy\n", "")

    def own() -> dict[str, str]:
        return {row["setting"]: row["value"] for row in tool.json("configs", "describe", "topic", "c")
                if row["source"] == "topic"}

    wait_until(lambda: own() == {"retention.ms": "5000", "cleanup.policy": "delete,compact"}, "both are changed")
    tool.json("configs", "delete", "topic", "c", "retention.ms")
    wait_until(lambda: own() == {"cleanup.policy": "delete,compact"}, "one is the default again")
    every = {row["setting"]: row for row in tool.json("configs", "describe", "topic", "c", "--all", "--documentation")}
    assert (every["retention.ms"]["value"], every["retention.ms"]["source"]) == ("604800000", "default")
    assert all(row["documentation"] for row in every.values())
    code, _, complaint = tool.run("configs", "set", "topic", "c", "retention.ms=long")
    assert code == 1
    assert complaint.endswith("(INVALID_CONFIG)\n")


def test_records_and_groups(node: KafkaNode, tool: Tool, pipe: Pipe) -> None:
    """Kafka's consumer reads what was produced, and Kafka's tool the offsets that were committed."""
    tool.json("topics", "create", "r")
    assert pipe.run("produce", "r", "--key-separator", "=", "--codec", "zstd", given="a=1\nb=2\nc=3\n") == (
        0, "", "3 records produced\n")
    assert [line.split("|")[-2:] for line in node.consume("r", count=3)] == [["a", "1"], ["b", "2"], ["c", "3"]]
    assert [(row["offset"], row["key"], row["value"]) for row in pipe.json("r")] == [
        (0, "a", "1"), (1, "b", "2"), (2, "c", "3")]
    assert pipe.run("consume", "r", "--group", "g", "--limit", 2) == (0, "1\n2\n", "")
    assert tool.json("groups", "offsets", "g") == [
        {"topic": "r", "partition": 0, "committed": 2, "end": 3, "lag": 1, "metadata": ""}]
    printed = java("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--bootstrap-server", node.bootstrap,
                   "--describe", "--group", "g")
    assert ["g", "r", "0", "2", "3", "1"] in [line.split()[:6] for line in printed.splitlines()]
    assert {"group": "g", "kind": "classic", "state": "Empty", "protocol_type": "consumer",
            "coordinator": 1} in tool.json("groups", "list")
    [described] = tool.json("groups", "describe", "g")
    assert (described["state"], described["members"]) == ("Empty", [])
    assert tool.json("groups", "reset", "g", "--to", "earliest") == [
        {"topic": "r", "partition": 0, "before": 2, "committed": 0}]
    assert pipe.run("consume", "r", "--group", "g", "--until-end") == (0, "1\n2\n3\n", "")
    assert tool.json("groups", "delete", "g") == [{"group": "g", "result": "deleted"}]


def test_cluster(node: KafkaNode, tool: Tool) -> None:
    [found] = tool.json("cluster", "status")
    assert (found["controller"], found["brokers"], found["problems"]) == (1, 1, [])
    assert (found["quorum"]["leader"], found["quorum"]["voters"]) == (1, [1])
    code, out, complaints = tool.run("cluster", "status")
    assert (code, complaints) == (0, "")
    assert out.splitlines()[-1].split() == ["state", "well"]
    [described] = tool.json("cluster", "describe")
    assert described["brokers"] == [{"node_id": 1, "address": node.bootstrap, "rack": None, "fenced": False,
                                     "problem": None}]
    assert [each["path"] for each in described["log_directories"]] == [str(node.data)]


def test_metadata_and_why(tool: Tool) -> None:
    """The log of Kafka's controller while it leads: its committed records."""
    tool.json("topics", "create", "m", "--partitions", 2, "--config", "retention.ms=60000")
    assert tool.run("metadata", "ls", "/topics/m") == (0, "id\n0/\n1/\n", "")
    assert tool.run("metadata", "ls", "/brokers") == (0, "1/\n", "")
    [found] = tool.json("metadata", "cat", "/topics/m/1")
    assert (found["replicas"], found["isr"], found["leader"]) == ([1], [1], 1)
    [image] = tool.json("metadata", "cat", "/image")
    tool.json("configs", "set", "topic", "m", "retention.ms=70000")
    assert tool.json("metadata", "cat", "/configs/topic/m") == [{"retention.ms": "70000"}]
    assert tool.json("metadata", "cat", "/configs/topic/m", "--as-of", image["offset"]) == [{"retention.ms": "60000"}]
    assert tool.run("metadata", "diff", "/configs/topic/m", "--as-of", image["offset"]) == (
        1, '~ /configs/topic/m/retention.ms = "60000" -> "70000"\n', "")
    assert tool.run("metadata", "diff", "/topics", "--as-of", image["offset"]) == (0, "", "")
    [answer] = tool.json("why", "m/0")
    assert answer["text"].startswith("Broker 1 leads m/0 since ")
    assert answer["text"].endswith(": the topic was created with it as the preferred replica.")


def test_why_of_a_healthy_cluster(node: KafkaNode, tool: Tool) -> None:
    """Kafka's controllers have no flight recorder, which proves nothing: DescribeQuorum reports the leader.

    The query goes through the broker, and through the controller.
    """
    controller = node.properties.read_text().partition("controller.quorum.bootstrap.servers=")[2].split("\n")[0]
    for address in (node.bootstrap, controller):
        tool.bootstrap = address
        code, out, complaints = tool.run("why")
        assert (code, complaints) == (0, "")
        assert out.splitlines()[0].startswith("Node 1 leads epoch ")
        assert all(answer["is_well"] for answer in tool.json("why"))
