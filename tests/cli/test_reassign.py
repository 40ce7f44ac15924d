"""`kraft topics reassign status` and `cancel` while replicas are on their way."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple, cast

import pytest
from confluent_kafka import Producer

from kraft.cli import reassign_status
from kraft.cli.reassign_status import seconds_left
from kraft.client import Cluster
from kraft.client.configs import Change, Operation, alter_configs
from kraft.client.reassignments import FOLLOWERS, LEADERS, Progress, ongoing, progress, total
from kraft.local.cluster import LocalCluster
from kraft.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from kraft.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.cli.nodes import Tool
from tests.cli.test_operators import partitions, throttles

RECORDS = 1_000
RECORD_BYTES = 10_000


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing of the engine runs in this process."""


class Move(NamedTuple):
    """A partition with one replica that is on its way to a second broker, throttled."""

    topic: str
    plan: Path
    tool: Tool
    cluster: LocalCluster

    def client(self) -> Cluster:
        return self.cluster.client()

    def done_bytes(self) -> int:
        with self.client() as client:
            return total(progress(client, ongoing(client).values())).done_bytes

    def set_rate(self, bytes_per_second: int) -> None:
        with self.client() as client:
            for broker in self.cluster.brokers:
                alter_configs(client, "broker", str(broker), [
                    Change(f"{kind}.rate", Operation.SET, str(bytes_per_second)) for kind in (LEADERS, FOLLOWERS)])

    def throttles(self) -> list[dict[str, str | None]]:
        with self.client() as client:
            return [throttles(client, "topic", self.topic),
                    *(throttles(client, "broker", str(broker)) for broker in self.cluster.brokers)]

    def await_rate(self, bytes_per_second: int) -> None:
        """Each broker learns of a change a moment after it was made."""
        def rates() -> list[str | None]:
            return [each.get(f"{FOLLOWERS}.rate") for each in self.throttles()[1:]]

        self.cluster.wait_until(lambda: rates().count(str(bytes_per_second)) == 2, "source and target are throttled")

    def await_no_throttle(self) -> None:
        """Each broker learns of a change a moment after it was made."""
        self.cluster.wait_until(lambda: not any(self.throttles()), "nothing is throttled")


@pytest.fixture
def begin(kraft_cluster: LocalCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Move]:
    tool = Tool(kraft_cluster.bootstrap, capsys)

    def begin(topic: str, bytes_per_second: int) -> Move:
        tool.json("topics", "create", topic, "--partitions", 1, "--replication-factor", 1)
        [now] = partitions(tool, topic)
        source = now["replicas"][0]
        producer = Producer({"bootstrap.servers": kraft_cluster.bootstrap})
        for _ in range(RECORDS):
            producer.produce(topic, bytes(RECORD_BYTES))
        assert producer.flush(20) == 0
        plan = tmp_path / f"{topic}.json"
        plan.write_text(json.dumps({"version": 1, "partitions": [
            {"topic": topic, "partition": 0, "replicas": [source, source % 3 + 1]}]}))
        tool.json("topics", "reassign", "start", plan, "--no-wait", "--throttle", bytes_per_second)
        return Move(topic, plan, tool, kraft_cluster)

    return begin


def meanwhile(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Run `action` whenever the command would wait."""
    monkeypatch.setattr(reassign_status, "time",
                        SimpleNamespace(monotonic=time.monotonic, sleep=lambda _seconds: action()))


@pytest.mark.kraft_cluster(brokers=3, controllers=0)
def test_status_and_watch(begin: Callable[..., Move], monkeypatch: pytest.MonkeyPatch) -> None:
    """Status shows what is left and its duration; `--watch` waits until the move is done, then removes the throttle."""
    move = begin("w1", 1_000)
    meanwhile(monkeypatch, lambda: None)
    for bound in (1_000, 1_000_000):
        move.tool.json("topics", "reassign", "start", move.plan, "--no-wait", "--throttle", bound)
        move.await_rate(bound)
        [moving] = move.tool.json("topics", "reassign", "status", move.plan)
        assert (moving["state"], moving["throttle_bytes"]) == ("moving", bound), "its bound was changed while it moved"

    def copied_more() -> None:
        before = move.done_bytes()
        move.cluster.wait_until(lambda: move.done_bytes() > before, "more is copied")

    meanwhile(monkeypatch, copied_more)
    code, out, complaints = move.tool.run("topics", "reassign", "status", move.plan)
    assert (code, complaints) == (0, "")
    _, row, left = out.splitlines()
    assert row.split()[:2] == ["w1/0", "moving"]
    assert re.search(r" 10\.\d MB  1\.0 MB/s +\d+ s$", row)
    assert re.fullmatch(r"about \d+ s left at the rate of this moment", left)
    assert any(move.throttles())
    looked = []

    def send_now() -> None:
        looked.append(move.done_bytes())
        move.set_rate(1_000_000_000)

    meanwhile(monkeypatch, send_now)
    code, out, _ = move.tool.run("topics", "reassign", "status", move.plan, "--watch")
    assert code == 0
    assert looked, "it was still under way"
    assert out.splitlines()[1].split()[:2] == ["w1/0", "done"]
    assert len(out.splitlines()) == 2, "nothing is left"
    move.await_no_throttle()


@pytest.mark.kraft_cluster(brokers=3, controllers=0)
def test_cancel_a_plan_and_all(begin: Callable[..., Move]) -> None:
    one, other = begin("c1", 1_000), begin("c2", 1_000)
    tool = one.tool
    assert tool.run("topics", "reassign", "cancel")[0] == 2
    assert tool.run("topics", "reassign", "cancel", "c1", "--all")[0] == 2
    stopped = tool.json("topics", "reassign", "cancel", "--plan", one.plan)
    assert [(each["partition"], each["result"]) for each in stopped] == [("c1/0", "cancelled")]
    with one.client() as client:
        assert [each.partition for each in ongoing(client).values()] == [("c2", 0)]
    one.cluster.wait_until(lambda: not one.throttles()[0], "the topic is not throttled any more")
    assert any(other.throttles()[1:]), "the other one still needs the brokers' rates"
    assert tool.json("topics", "reassign", "status", one.plan)[0]["state"] == "elsewhere"
    assert [each["partition"] for each in tool.json("topics", "reassign", "cancel", "--all")] == ["c2/0"]
    other.await_no_throttle()
    assert [len(each["replicas"]) for topic in ("c1", "c2") for each in partitions(tool, topic)] == [1, 1]
    assert tool.json("topics", "reassign", "cancel", "--all") == []


class Lagging:
    """Cluster whose controller has nothing in progress.

    Its answering node replays that only with the second request for Metadata.
    """

    def __init__(self) -> None:
        self.answers = [[1], [1, 2]]

    def send(self, _request: object, _response: object) -> ListPartitionReassignmentsResponse:
        return ListPartitionReassignmentsResponse(error_message=None)

    def metadata(self, _topics: list[str]) -> MetadataResponse:
        return MetadataResponse(topics=[MetadataResponseTopic(name="a", partitions=[
            MetadataResponsePartition(partition_index=0, replica_nodes=self.answers.pop(0))])])


def test_a_node_that_lags_does_not_call_a_reassignment_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(monkeypatch, lambda: None)
    [row], left = reassign_status.status(cast("Cluster", Lagging()), {("a", 0): [1, 2]})
    assert (row["state"], row["replicas"], left) == ("done", [1, 2], None)


@pytest.mark.parametrize(("before", "left", "seconds"), [
    (1_000, 750, 1.5), (1_000, 0, 0.0), (1_000, 1_000, None), (1_000, 1_200, None), (None, 500, None),
])
def test_how_long_it_takes(before: int | None, left: int, seconds: float | None) -> None:
    """The estimate uses the bytes left to copy at two times, half a second apart."""
    first = None if before is None else Progress(2_000 - before, 2_000)
    assert seconds_left(first, Progress(2_000 - left, 2_000), 0.5) == seconds
