"""The sink on a cluster with transactions: a node of Kafka's. Drivers die at each of their steps and at any moment."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.golden import REPOSITORY
from tests.peer.kafka import ENDING, KafkaNode, kafka_node, require_kafka

pytest.importorskip("confluent_kafka")
pytest.importorskip("pyspark")

from confluent_kafka.admin import AdminClient, NewTopic

from tests.spark import sink_scenarios
from tests.spark.conftest import no_leaks, spark  # noqa: F401 - the library's descriptors are not checked
from tests.spark.sink_scenarios import STEPS, Target
from tests.spark.test_sink import batch_of, staging, stop, stream_writer, written  # noqa: F401

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


@pytest.fixture
def target(node: KafkaNode, topic: str, tmp_path: Path) -> Target:
    return Target(node.bootstrap, node.settle, topic, tmp_path)


def test_a_batch_becomes_visible_at_once(target: Target, stop: pytest.MonkeyPatch) -> None:  # noqa: F811
    sink_scenarios.a_batch_becomes_visible_at_once(target, stop)


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_a_driver_that_dies_while_it_publishes(target: Target, stop: pytest.MonkeyPatch,  # noqa: F811
                                               step: tuple[type, str, int], done: bool) -> None:
    sink_scenarios.a_driver_dies_while_it_publishes(target, stop, step, done=done)


def test_a_driver_that_comes_back_is_fenced(target: Target, stop: pytest.MonkeyPatch) -> None:  # noqa: F811
    sink_scenarios.a_driver_that_comes_back_is_fenced(target, stop)


def test_a_transaction_that_expires(node: KafkaNode, target: Target, stop: pytest.MonkeyPatch) -> None:  # noqa: F811
    sink_scenarios.a_transaction_expires(target, stop, lambda: node.settle("Ongoing", *ENDING))


def test_without_transactions_when_the_query_says_so(target: Target) -> None:
    """A query keeps to this choice, also without the option."""
    writer = target.writer(transactions="false")
    writer.commit(written(writer, range(50)), 0)
    writer = target.writer()
    writer.commit(written(writer, range(50, 100)), 1)
    assert "producer_id" in (staging(writer).identity() or {})
    assert target.values() == list(range(100))


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


def test_drivers_killed_at_any_moment(node: KafkaNode, target: Target) -> None:
    """Each driver goes through all batches, as if Spark had noted nothing before."""
    chance, batches, size, killed = random.Random(7), 12, 400, 0

    def driver() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, node.bootstrap, target.topic, str(target.location), str(batches), str(size)],
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
    assert target.values() == list(range(batches * size))


def test_a_query_of_spark(node: KafkaNode, target: Target, spark: Any) -> None:  # noqa: F811
    """Copy one topic of Kafka's to another, exactly once, over a repeated batch."""
    topic, location = target.topic, target.location
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
         .option("checkpointLocation", str(location)).trigger(availableNow=True).start().awaitTermination())

    run(range(30))
    last = max((location / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink()
    run(range(30, 40))
    (identity,) = (location / "kraft-sink").glob("*/producer.json")
    assert "transactional_id" in identity.read_text()
    assert target.values() == list(range(40))
