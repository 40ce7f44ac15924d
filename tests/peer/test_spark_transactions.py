"""The sink on a cluster with transactions: a node of Kafka's. Drivers die at each of their steps and at any moment."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.golden import REPOSITORY
from tests.peer.kafka import ENDING, KafkaNode, kafka_node, require_kafka

pytest.importorskip("confluent_kafka")
pytest.importorskip("pyspark")

from confluent_kafka.admin import AdminClient, NewTopic

from kraft.client import Cluster, RefusedError
from kraft.client.groups import committed_offsets
from kraft.client.producer import Producer
from kraft.client.transactions import Transactions, has_transactions
from kraft.spark.staging import Staging
from tests.spark.conftest import no_leaks, spark  # noqa: F401 - the library's descriptors are not checked
from tests.spark.reading import rows
from tests.spark.test_sink import StoppedError, batch_of, staging, stop, stream_writer, written  # noqa: F401

pytestmark = pytest.mark.peer

SECONDS = 30.0
KILLS = 8


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNode]:
    require_kafka()
    with kafka_node(tmp_path_factory.mktemp("kafka") / "home",
                    **{"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}) as process:
        process.start()
        yield process


@pytest.fixture
def topic(node: KafkaNode, request: pytest.FixtureRequest) -> str:
    name = "".join(each if each.isalnum() else "-" for each in request.node.name)
    create(node, name)
    return name


def create(node: KafkaNode, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 2})
    for made in admin.create_topics([NewTopic(name, 2, 1)]).values():
        made.result(SECONDS)


def sink(node: KafkaNode, topic: str, location: Path, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": node.bootstrap, "topic": topic, "checkpointLocation": str(location),
            "kafka.batch.size": "20000", **more}


def values(node: KafkaNode, topic: str, isolation: str = "read_committed") -> list[int]:
    node.settle()
    options = {"kafka.bootstrap.servers": node.bootstrap, "subscribe": topic, "kafka.isolation.level": isolation}
    return sorted(int(row["value"]) for row in rows(options))


def test_a_batch_becomes_visible_at_once(node: KafkaNode, topic: str, tmp_path: Path,
                                         stop: pytest.MonkeyPatch) -> None:  # noqa: F811
    seen = []
    end = Transactions.end

    def watched(self: Transactions, *, commit: bool) -> None:
        seen.append((commit, values(node, topic), len(values(node, topic, "read_uncommitted"))))
        end(self, commit=commit)

    stop.setattr(Transactions, "end", watched)
    writer = stream_writer(sink(node, topic, tmp_path))
    writer.commit(written(writer, range(300), range(300, 600)), 0)
    assert seen == [(True, [], 600)]
    assert values(node, topic) == list(range(600))
    group = staging(writer).identity()
    with Cluster(node.bootstrap) as cluster:
        assert has_transactions(cluster) and group is not None
        found = committed_offsets(cluster, group["transactional_id"])
    assert [(each.offset, each.metadata) for each in found.values()] == [(1, "batch 0")]
    assert list(staging(writer).path.rglob("*.batches")) == []


def dying(patch: pytest.MonkeyPatch, owner: type, method: str, after: int, *, done: bool) -> None:
    """Kill the driver at this call of a step: before it does anything, or before the driver learns of its result."""
    calls = iter(range(10**6))
    step: Callable[..., Any] = getattr(owner, method)

    def fail(self: Any, *arguments: Any, **named: Any) -> None:
        if next(calls) == after:
            if done:
                step(self, *arguments, **named)
            raise StoppedError
        step(self, *arguments, **named)

    patch.setattr(owner, method, fail)


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize(("owner", "method", "after"), [
    (Transactions, "begin", 0), (Transactions, "add", 0), (Producer, "send", 0), (Producer, "send", 4),
    (Transactions, "commit_offset", 0), (Transactions, "end", 0), (Staging, "decide", 0)])
def test_a_driver_that_dies_while_it_publishes(node: KafkaNode, topic: str, tmp_path: Path,
                                               stop: pytest.MonkeyPatch,  # noqa: F811
                                               owner: type, method: str, after: int, done: bool) -> None:
    options = sink(node, topic, tmp_path)
    stream_writer(options).commit(written(stream_writer(options), range(100)), 0)
    writer = stream_writer(options)
    messages = written(writer, range(100, 600), range(600, 1_000))
    with stop.context() as patched:
        dying(patched, owner, method, after, done=done)
        with pytest.raises(StoppedError):
            writer.commit(messages, 1)
    writer.abort([*messages, None], 1)      # as Spark does then
    # Spark begins again, and the rows come in another order and with other boundaries.
    again = stream_writer(options)
    again.commit(written(again, range(500, 1_000), range(100, 500)), 1)
    assert values(node, topic) == list(range(1_000))
    # The batch is repeated, as the driver died before it noted its end: nothing is written.
    again.commit(written(again, range(100, 1_000)), 1)
    again.commit(written(again, range(1_000, 1_010)), 2)
    assert values(node, topic) == list(range(1_010))


def test_a_driver_that_comes_back_is_fenced(node: KafkaNode, topic: str, tmp_path: Path,
                                            stop: pytest.MonkeyPatch) -> None:  # noqa: F811
    """The driver paused before its transaction's end; another did its work."""
    options = sink(node, topic, tmp_path)
    late, other = stream_writer(options), stream_writer(options)
    end, staged = Transactions.end, written(other, range(50, 100), range(50))

    def overtaken(self: Transactions, *, commit: bool) -> None:
        with stop.context() as patched:
            patched.setattr(Transactions, "end", end)
            other.commit(staged, 0)
        end(self, commit=commit)

    stop.setattr(Transactions, "end", overtaken)
    with pytest.raises(RefusedError, match=r"PRODUCER_FENCED|INVALID_PRODUCER_EPOCH"):
        late.commit(written(late, range(100)), 0)
    assert values(node, topic) == list(range(100))


def test_a_transaction_that_expires(node: KafkaNode, topic: str, tmp_path: Path,
                                    stop: pytest.MonkeyPatch) -> None:  # noqa: F811
    options = sink(node, topic, tmp_path, **{"kafka.transaction.timeout.ms": "1000"})
    writer = stream_writer(options)
    commit_offset = Transactions.commit_offset

    def late(self: Transactions, *arguments: Any) -> None:
        node.settle("Ongoing", *ENDING)     # until the cluster has aborted it
        commit_offset(self, *arguments)

    with stop.context() as patched:
        patched.setattr(Transactions, "commit_offset", late)
        with pytest.raises(RefusedError, match=r"PRODUCER_FENCED|INVALID_PRODUCER_EPOCH|INVALID_TXN_STATE"):
            writer.commit(written(writer, range(200)), 0)
    assert values(node, topic) == []
    writer.commit(written(writer, range(200)), 0)
    assert values(node, topic) == list(range(200))


def test_without_transactions_when_the_query_says_so(node: KafkaNode, topic: str, tmp_path: Path) -> None:
    """A query keeps to this choice, whatever its options say later."""
    writer = stream_writer(sink(node, topic, tmp_path, transactions="false"))
    writer.commit(written(writer, range(50)), 0)
    writer = stream_writer(sink(node, topic, tmp_path))
    writer.commit(written(writer, range(50, 100)), 1)
    assert "producer_id" in (staging(writer).identity() or {})
    assert values(node, topic) == list(range(100))


DRIVER = """
import sys
from tests.spark.test_sink import stream_writer, written
server, topic, location, batches, rows = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
writer = stream_writer({"kafka.bootstrap.servers": server, "topic": topic, "checkpointLocation": location,
                        "kafka.batch.size": "20000"})
print("ready", flush=True)
for batch in range(batches):
    half = batch * rows + rows // 2
    writer.commit(written(writer, range(batch * rows, half), range(half, (batch + 1) * rows)), batch)
print("done", flush=True)
"""


def test_drivers_killed_at_any_moment(node: KafkaNode, topic: str, tmp_path: Path) -> None:
    """Each driver goes through all batches, as if Spark had noted nothing before."""
    chance, batches, size, killed = random.Random(7), 12, 400, 0

    def driver() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, node.bootstrap, topic, str(tmp_path), str(batches), str(size)],
            stdout=subprocess.PIPE, text=True, cwd=REPOSITORY, env={**os.environ})
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        return process

    for _ in range(KILLS):
        process = driver()
        try:
            process.wait(chance.uniform(0.0, 0.25))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.communicate()
    process = driver()
    assert process.communicate(timeout=120)[0] == "done\n"
    assert killed >= KILLS // 2, "the drivers were through before they were killed"
    assert values(node, topic) == list(range(batches * size))


def test_a_query_of_spark(node: KafkaNode, topic: str, tmp_path: Path, spark: Any) -> None:  # noqa: F811
    """Copy one topic of Kafka's to another, exactly once, over a repeated batch."""
    create(node, f"{topic}-in")

    def run(more: range) -> None:
        first = {"kafka.bootstrap.servers": node.bootstrap, "topic": f"{topic}-in"}
        source_rows = stream_writer({**first, "delivery": "at-least-once"})
        source_rows.commit([source_rows.write(iter([batch_of(more)]))], 0)
        frame = spark.readStream.format("kraft").options(**{
            "kafka.bootstrap.servers": node.bootstrap, "subscribe": f"{topic}-in", "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "20"}).load()
        (frame.select("key", "value").writeStream.format("kraft").outputMode("append")
         .options(**{"kafka.bootstrap.servers": node.bootstrap, "topic": topic})
         .option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination())

    run(range(30))
    last = max((tmp_path / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink()
    run(range(30, 40))
    (identity,) = (tmp_path / "kraft-sink").glob("*/producer.json")
    assert "transactional_id" in identity.read_text()
    assert values(node, topic) == list(range(40))
