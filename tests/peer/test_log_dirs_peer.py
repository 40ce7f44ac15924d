"""`kafka-reassign-partitions` moves replicas between log directories of our brokers as between those of Kafka's."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.integration.admin import wait_until
from tests.integration.clients import Record, librdkafka_produce
from tests.peer.cluster import ThreeNodes, three_nodes
from tests.peer.kafka import require_kafka
from tests.peer.quorum import JAVA, OURS, SECONDS
from tests.peer.tool_runs import TOPIC, Run, run_tool, settled
from tests.peer.tools import ToolOutput, Tools, tools

pytestmark = pytest.mark.peer

MORE: Final = "{files}/cluster/%d-more"
PLANS: Final[dict[str, tuple[Any, Any]]] = {
    "within": [[1, 2, 3], [MORE % 1, "any", MORE % 3]],
    "over": [[2, 3], [MORE % 2, "any"]],
    "to-a-new-one": [[1, 2], [MORE % 1, "any"]],
    "nowhere": [[1, 2], ["/nowhere", "any"]],
}
"""Replicas of the one partition, and the directory of each on its broker."""
UNDER_WAY: Final = "in progress", "There is no active reassignment"
"""The second is reported for a moment when the controller has ended a move, but the queried broker does not know it."""
LOST: Final = "is not being moved from log dir"
"""Now and then Kafka's own brokers forget a move that comes while the leader changes; the test then repeats it."""


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing of the engine runs in this process."""


def placed(cluster: ThreeNodes, kafka: Tools, files: Path) -> dict[str, list[object]]:
    """Output of `kafka-log-dirs` for each directory that has the partition."""
    printed = run_tool(cluster, kafka, files,
                       Run("kafka-log-dirs", f"--describe --broker-list 1,2,3 --topic-list {TOPIC}"))
    brokers = json.loads(next(line for line in printed.text.splitlines() if line.startswith("{")))["brokers"]
    return {each["logDir"].removeprefix(str(files)): [each["error"], *each["partitions"]]
            for broker in brokers for each in broker["logDirs"] if each["partitions"]}


def outputs_of(kind: str, directory: Path) -> list[object]:
    """Return the reports of a cluster of that kind for every move, and the directories of the replicas after it."""
    found: list[object] = []
    directory.mkdir()
    with three_nodes(directory / "cluster", kind, directories=2) as cluster, tools(directory) as kafka:
        def run(words: str) -> ToolOutput:
            run = Run("kafka-reassign-partitions", words)
            printed = settled(cluster, directory, run, run_tool(cluster, kafka, directory, run))
            # Remove the stack trace: the virtual machine calls the tool in another way after some calls.
            return ToolOutput(printed.code,
                              "\n".join(line for line in printed.text.splitlines() if not line.startswith("\t")))

        for name, (replicas, places) in PLANS.items():
            at = [str(place).format(files=directory) for place in places]
            (directory / f"{name}.json").write_text(json.dumps({"version": 1, "partitions": [
                {"topic": TOPIC, "partition": 0, "replicas": replicas, "log_dirs": at}]}))
        run_tool(cluster, kafka, directory, Run("kafka-topics", f"--create --topic {TOPIC} --replica-assignment 1:2:3"))
        librdkafka_produce(cluster, TOPIC, [Record(None, b"value %d" % i) for i in range(200)], linger_ms=200,
                           idempotent=True, acks="all")
        for name in PLANS:
            file = f"--reassignment-json-file {{files}}/{name}.json"
            execute = f"--execute {file} --replica-alter-log-dirs-throttle 100000000"
            found.append((name, run(execute)))

            def ended(words: str, file: str = file, execute: str = execute) -> ToolOutput:
                """Return the report once the move is over: each run may query a broker that does not know that yet."""
                printed: list[ToolOutput] = []

                def is_over() -> bool:
                    printed.append(run(f"--verify {file} {words}".rstrip()))
                    if kind == JAVA and LOST in printed[-1].text and "nowhere" not in file:
                        run(execute)
                        return False
                    return not any(each in printed[-1].text for each in UNDER_WAY)

                wait_until(is_over, f"{file} is done", SECONDS)
                return printed[-1]

            found += [ended("--preserve-throttles"), ended(""), placed(cluster, kafka, directory)]
        alarms = [line for node in cluster.nodes if kind == OURS for line in node.alarms()]
    assert alarms == []
    return found


def test_replicas_are_moved_between_directories(tmp_path: Path) -> None:
    require_kafka()
    theirs, ours = outputs_of(JAVA, tmp_path / "kafka"), outputs_of(OURS, tmp_path / "ours")
    for one, other in zip(ours, theirs, strict=True):
        assert one == other
