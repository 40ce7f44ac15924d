"""`kraft topics` against a node."""

from tests.cli.nodes import Tool


def test_create_describe_delete(tool: Tool) -> None:
    made = tool.json("topics", "create", "t1", "t2", "--partitions", 3, "--config", "retention.ms=60000")
    assert [(row["topic"], row["result"], row["partitions"], row["replication_factor"]) for row in made] == [
        ("t1", "created", 3, 1), ("t2", "created", 3, 1)]
    listed = {row["topic"]: row for row in tool.json("topics", "list")}
    assert listed["t1"] == {"topic": "t1", "topic_id": made[0]["topic_id"], "partitions": 3, "replication_factor": 1,
                            "internal": False}
    [described] = tool.json("topics", "describe", "t1")
    assert described["configs"] == {"retention.ms": "60000"}
    assert described["partitions"][2] == {"partition": 2, "leader": 1, "leader_epoch": 0, "replicas": [1], "isr": [1],
                                          "offline": [], "start_offset": 0, "end_offset": 0}
    assert [row["result"] for row in tool.json("topics", "delete", "t1", "t2")] == ["deleted", "deleted"]
    assert not {"t1", "t2"} & {row["topic"] for row in tool.json("topics", "list")}


def test_more_partitions(tool: Tool) -> None:
    tool.json("topics", "create", "grows")
    assert tool.json("topics", "alter", "grows", "--partitions", 4, "--validate-only") == [
        {"topic": "grows", "result": "would have 4 partitions", "partitions": 4}]
    assert tool.run("topics", "alter", "grows", "--partitions", 4) == (0, "grows: has 4 partitions\n", "")
    assert len(tool.json("topics", "describe", "grows", "--no-configs")[0]["partitions"]) == 4
    code, out, complaint = tool.run("topics", "alter", "grows", "--partitions", 2)
    assert (code, out) == (1, "")
    assert complaint.endswith("(INVALID_PARTITIONS)\n")


def test_refusals_are_reported_and_the_rest_is_done(tool: Tool) -> None:
    tool.json("topics", "create", "here")
    code, out, complaint = tool.run("topics", "create", "here", "there", "not/allowed")
    assert (code, out) == (1, "there: created\n")
    assert complaint.splitlines()[0].endswith("(TOPIC_ALREADY_EXISTS)")
    assert complaint.splitlines()[1].endswith("(INVALID_TOPIC_EXCEPTION)")
    assert tool.json("topics", "create", "here", "--if-not-exists") == [{"topic": "here", "result": "exists"}]
    code, out, complaint = tool.run("topics", "delete", "there", "nowhere")
    assert (code, out) == (1, "there: deleted\n")
    assert complaint.startswith("kraft: topic nowhere: ")
    assert tool.json("topics", "delete", "nowhere", "--if-exists") == [{"topic": "nowhere",
                                                                        "result": "does not exist"}]


def test_only_validated(tool: Tool) -> None:
    assert tool.json("topics", "create", "maybe", "--validate-only")[0]["result"] == "would be created"
    code, _, complaint = tool.run("topics", "describe", "maybe")
    assert code == 1
    assert complaint.endswith("(UNKNOWN_TOPIC_OR_PARTITION)\n")


def test_for_people(tool: Tool) -> None:
    tool.json("topics", "create", "seen", "--partitions", 2, "--config", "cleanup.policy=compact")
    code, out, _ = tool.run("topics", "describe", "seen")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].startswith("seen: 2 partitions, id ")
    assert lines[1] == "settings: cleanup.policy=compact"
    assert lines[2].split() == ["PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN", "SYNC", "OFFLINE", "START", "END"]
    assert lines[3].split() == ["0", "1", "0", "1", "1", "-", "0", "0"]


def test_no_cluster(tool: Tool) -> None:
    tool.bootstrap = "127.0.0.1:1"
    assert tool.run("topics", "list") == (
        1, "", "kraft: 127.0.0.1:1: cannot connect: [Errno 111] Connection refused\n")
