"""`kraft bench workload` and `kraft bench drain` against a node."""

import re
from pathlib import Path

import pytest

from kraft.load.runner import Runner
from kraft_native.base.errors import OperationError
from tests.cli.nodes import Started, Tool

FILE = """
name: small
topics: 2
partitionsPerTopic: 3
keyDistributor: KEY_ROUND_ROBIN
messageSize: 100
useRandomizedPayloads: true
randomBytesRatio: 0.5
randomizedPayloadPoolSize: 20
subscriptionsPerTopic: 2
consumerPerSubscription: 1
producersPerTopic: 1
producerRate: 4000
testDurationMinutes: 15
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(FILE)
    return path


def topics(tool: Tool) -> set[str]:
    return {row["topic"] for row in tool.json("topics", "list") if row["topic"].startswith("kraft-bench")}


def test_a_file_is_run_and_its_topics_are_removed(file: Path, tool: Tool) -> None:
    before = topics(tool)
    [found] = tool.json("bench", "workload", file, "--seconds", 0.5, "--warmup", 0.1)
    [run] = found["runs"]
    assert run["records_sent"] == pytest.approx(2000, rel=0.1)
    assert run["records_read"] >= 1.4 * run["records_sent"]
    assert run["end_to_end_samples"] >= run["samples"]
    assert (run["errors"], run["workload"]["acks"], run["workload"]["rate"]) == (0, -1, 2000)
    assert topics(tool) == before


def test_topics_are_kept_and_never_those_of_others(file: Path, tool: Tool) -> None:
    tool.json("bench", "workload", file, "--seconds", 0.2, "--warmup", 0, "--topic", "kept", "--keep-topics")
    rows = {row["topic"]: row for row in tool.json("topics", "list")}
    assert rows["kept-0"]["partitions"] == rows["kept-1"]["partitions"] == 3
    tool.json("topics", "delete", "kept-0")
    code, out, complaint = tool.run("bench", "workload", file, "--topic", "kept")
    assert (code, out) == (1, "")
    assert "topic kept-1: it exists already" in complaint
    assert "kept-1" in {row["topic"] for row in tool.json("topics", "list")}


def test_a_file_with_a_backlog_is_drained(file: Path, tool: Tool) -> None:
    file.write_text(f"{FILE}consumerBacklogSizeGB: 0.0001\n")
    [found] = tool.json("bench", "workload", file)
    [run] = found["runs"]
    backlog = run["backlog"]
    assert backlog["bytes"] >= 0.0001 * 2**30
    assert backlog["records_left"] == 0
    assert run["records_read"] >= 2 * backlog["records"]
    assert tool.run("bench", "workload", file, "--processes", 2)[0] == 2


def test_a_setting_that_is_not_supported_is_named(file: Path, tool: Tool) -> None:
    file.write_text(f"{FILE}tpoics: 3\n")
    code, out, complaint = tool.run("bench", "workload", file)
    assert (code, out) == (1, "")
    assert complaint.startswith("kraft: tpoics: 3 is of a setting that is not supported; allowed are name, topics")


def test_a_backlog_is_built_and_drained(node: Started, tool: Tool) -> None:
    code, out, complaint = tool.run("bench", "drain", "--backlog-bytes", 300_000, "--connections", 2, "--batch-bytes",
                                    2000, "--rate", 2000, "--groups", 2, "--topic", "drained", "--progress", "--pid",
                                    node.process.pid)
    assert code == 0
    assert re.search(r"backlog +│ [\d,]+ records, 0\.[3-9] MB, built in ", out)
    assert re.search(r"drained +│ in [\d.,]+ s, [\d,]+ records/s", out)
    assert re.match(r" +1 s: .* read", complaint)


def test_a_backlog_that_is_not_drained_in_time(tool: Tool) -> None:
    """Only a part must be read, and the time is over before anything can be."""
    load = ("--backlog-bytes", 100_000, "--batch-bytes", 2000, "--topic", "undrained", "--ratio", 0.5)
    code, _, complaint = tool.run("bench", "drain", *load, "--seconds", 0.001)
    assert code == 1
    assert re.search(r"the backlog was not drained in 0\.001 s: [\d,]+ records are unread", complaint)
    code, out, complaint = tool.run("bench", "drain", *load, "--rate", 1, "--build-seconds", 0.05)
    assert (code, out) == (1, "")
    assert "the backlog was not built in 0.05 s: " in complaint


class Failing:
    """A load whose run fails at once."""

    def run(self, seconds: float, slots: int) -> None:
        raise OperationError("connection 7: the server closed it")

    def progress(self) -> None:
        return None

    def stop(self) -> None:
        pass


def test_a_generator_that_fails_is_no_endless_wait() -> None:
    runner = Runner(Failing(), 1.0)  # type: ignore[arg-type]
    runner.start()
    runner.join()
    for action in (runner.progress, runner.end):
        with pytest.raises(OperationError, match="the server closed it"):
            action()
