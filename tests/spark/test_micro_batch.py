"""Streams over a cluster: the behaviours of Spark's own Kafka connector (KafkaMicroBatchSourceSuite), by its names."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from pyspark.sql import functions as f
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from kraft import LogDir
from kraft.log_dir import TopicPartition
from kraft.spark import cluster, fetch, library_fetch
from kraft.spark.errors import DataLossError
from kraft.spark.progress import Mark, changes
from kraft.spark.source import KraftSource
from kraft.spark.stream import StreamReader
from kraft_native.base.errors import InvalidArgumentError
from tests.spark.reading import rows
from tests.spark.streams import Stream
from tests.spark.test_relation import by_times, per_partition, query
from tests.spark.topics import Topics
from tools.tree import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_MS = 1_700_000_000_000
MakeStream = Callable[..., Stream]


@pytest.fixture
def stream() -> Iterator[MakeStream]:
    made: list[Stream] = []

    def make(*arguments: Any, **named: Any) -> Stream:
        made.append(Stream(*arguments, **named))
        return made[-1]

    yield make
    for each in made:
        each.close()


def again(stream: MakeStream, before: Stream, done: int | None = None, **named: Any) -> Stream:
    """The query after a restart from its checkpoint."""
    options = {"kafka.bootstrap.servers": before.reader.options.client["bootstrap.servers"],
               "subscribe": ",".join(before.reader.options.subscription.topics)}
    return stream(options, list(before.offsets), before.done if done is None else done, **named)


# --- with Spark

LISTENER = re.compile(r"^```python\n(from pyspark\.sql\.streaming import StreamingQueryListener\n.*?)^```$",
                      re.MULTILINE | re.DOTALL)


def test_custom_lag_metrics(spark: SparkSession, topics: Topics, topic: str, tmp_path: Path,
                            capsys: pytest.CaptureFixture[str]) -> None:
    """The listener of the page computes them from a real query's progress: Python sources have no Spark metrics."""
    topics.create(topic, 2)
    topics.send(topic, range(6), 0)
    topics.send(topic, range(4), 1)
    frame = spark.readStream.format("kraft").options(**query(topics, topic, startingOffsets="earliest",
                                                             maxOffsetsPerTrigger="5")).load()
    running = (frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
               .trigger(availableNow=True).start())
    running.awaitTermination()
    [block] = LISTENER.findall((ROOT / "docs" / "spark.md").read_text())
    listeners: list[Any] = []
    exec(block, {"spark": SimpleNamespace(streams=SimpleNamespace(addListener=listeners.append))})
    for progress in running.recentProgress:
        assert progress["sources"][0]["metrics"] == {}
        listeners[0].onQueryProgress(SimpleNamespace(progress=progress))
    first, *_, last = [line for line in capsys.readouterr().out.splitlines() if "maxOffsetsBehindLatest" in line]
    assert "'avgOffsetsBehindLatest': '2.5'" in first and "'maxOffsetsBehindLatest': '3'" in first
    assert "'maxOffsetsBehindLatest': '0'" in last

def test_trigger_available_now(spark: SparkSession, topics: Topics, topic: str, tmp_path: Path) -> None:
    topics.create(topic, 5)
    for partition in range(5):
        topics.send(topic, range(3 * partition, 3 * partition + 3), partition)

    def run() -> list[int]:
        """Run once from the end of the last run; return the number of rows of each batch."""
        counts: list[int] = []
        frame = spark.readStream.format("kraft").options(**query(topics, topic, startingOffsets="earliest",
                                                                 maxOffsetsPerTrigger="5")).load()
        running = (frame.writeStream.foreachBatch(lambda rows, _: counts.append(rows.count()))
                   .option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start())
        running.awaitTermination()
        return counts

    assert run() == [5, 5, 5]
    assert run() == []
    topics.grow(topic, 6)
    topics.send(topic, [100, 101], 5)
    assert run() == [2]


def test_a_query_that_runs_on(spark: SparkSession, topics: Topics, topic: str, tmp_path: Path) -> None:
    topics.create(topic, 2)
    options = query(topics, topic, startingOffsets="earliest", publishOffsets=f"group-{topic}")
    frame = spark.readStream.format("kraft").options(**options).load().selectExpr(
        "CAST(CAST(value AS STRING) AS INT) AS value")
    running = (frame.writeStream.format("memory").queryName(topic.replace("-", "_"))
               .option("checkpointLocation", str(tmp_path)).start())
    try:
        topics.send(topic, range(10), 0)
        running.processAllAvailable()
        topics.send(topic, range(10, 20), 1)
        running.processAllAvailable()
        found = spark.table(topic.replace("-", "_")).collect()
        assert sorted(row.value for row in found) == list(range(20))
        progress = json.loads(running.lastProgress.json)["sources"][0]  # type: ignore[union-attr]
        assert json.loads(json.dumps(progress["latestOffset"]))[topic] == {"0": 10, "1": 10}
    finally:
        running.stop()


def test_watermark(spark: SparkSession, tmp_path: Path) -> None:
    """Windows close as the records' times advance; the progress counts the input rows."""
    with LogDir(tmp_path / "data") as directory:
        for number in range(20):
            directory.log("orders", 0).append_record(b"%d" % number, timestamp_ms=START_MS + 1_000 * number)
    frame = spark.readStream.format("kraft").options(path=str(tmp_path / "data"), startingOffsets="earliest",
                                                     maxOffsetsPerTrigger="15").load()
    windows = frame.withWatermark("timestamp", "2 seconds").groupBy(f.window("timestamp", "5 seconds")).count()
    running = (windows.writeStream.format("memory").queryName("windows").trigger(availableNow=True)
               .option("checkpointLocation", str(tmp_path / "checkpoint")).start())
    running.awaitTermination()
    assert sum(json.loads(each.json)["numInputRows"] for each in running.recentProgress) == 20
    assert [row["count"] for row in spark.table("windows").collect()] == [5, 5, 5], "the fourth is open"


# --- offsets and limits

def test_max_offsets_per_trigger(stream: MakeStream, topics: Topics, topic: str) -> None:
    topics.create(topic, 3)
    topics.send(topic, range(100, 201), 0)
    topics.send(topic, range(10, 21), 1)
    topics.send(topic, [1], 2)
    running = stream(query(topics, topic, startingOffsets="earliest", maxOffsetsPerTrigger="10"))
    assert running.batch() == [1, 10, *range(100, 108)]
    assert running.batch() == [11, *range(108, 117)]
    # Trigger.Once requests everything that exists.
    assert len(running.batch(ReadAllAvailable()) or ()) == 113 - 20
    assert running.batch() is None


def test_min_offsets_per_trigger(stream: MakeStream, topics: Topics, topic: str) -> None:
    topics.create(topic)
    topics.send(topic, range(10))
    options = query(topics, topic, startingOffsets="earliest", minOffsetsPerTrigger="15")
    running = stream(options)
    assert running.reader.getDefaultReadLimit() == ReadMinRows(15)
    assert running.batch() is None
    topics.send(topic, range(10, 16))
    assert running.batch() == list(range(16))
    # A query that has waited long enough gets less.
    topics.send(topic, [16])
    impatient = stream(options | {"maxTriggerDelay": "0ms"})
    assert impatient.batch() == list(range(17))
    # A query that ends with the existing data does not wait for more.
    assert stream(options | {"minOffsetsPerTrigger": "1000"}, available_now=True).batch() == list(range(17))


def test_composite_read_limit(stream: MakeStream, topics: Topics, topic: str) -> None:
    topics.create(topic)
    topics.send(topic, range(30))
    running = stream(query(topics, topic, startingOffsets="earliest", minOffsetsPerTrigger="8",
                           maxOffsetsPerTrigger="20"))
    assert running.reader.getDefaultReadLimit() == ReadMaxRows(20)
    assert running.batch() == list(range(20))
    assert running.batch() == list(range(20, 30))
    topics.send(topic, range(30, 35))
    assert running.batch() is None


def test_min_partitions(stream: MakeStream, topics: Topics, topic: str) -> None:
    topics.create(topic, 2)
    topics.send(topic, range(30), 0)
    topics.send(topic, range(30, 40), 1)
    for options, tasks in (({}, 1), ({"minPartitions": "6"}, 7)):
        running = stream(query(topics, topic, startingOffsets="earliest", **options))
        assert running.plan()
        assert len(running.reader.partitions(*(json.loads(text) for text in running.offsets))) == tasks
        assert sorted(int(row["value"]) for row in running.run()) == list(range(40))


def test_rate_limit_long_max_overflow(stream: MakeStream, topics: Topics, topic: str) -> None:
    topics.create(topic, 2)
    topics.send(topic, range(10), 0)
    running = stream(query(topics, topic, startingOffsets="earliest", maxOffsetsPerTrigger=str(2**63 - 1)))
    assert running.batch() == list(range(10))


def test_current_offsets_are_set_without_new_data(stream: MakeStream, topics: Topics, topic: str) -> None:
    """SPARK-22956: two sources, one of which has nothing."""
    topics.create(topic, 2)
    running = stream(query(topics, topic, startingOffsets="earliest"))
    assert json.loads(running.offsets[0])[topic] == {"0": 0, "1": 0}
    assert running.batch() is None
    assert running.reader.partitions(json.loads(running.offsets[0]), json.loads(running.offsets[0])) == []


SUBSCRIPTIONS = ("assign", "subscribe", "subscribePattern")
STARTS = ("latest", "earliest", "specific offsets", "specific timestamps", "global timestamp")


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("subscription", SUBSCRIPTIONS)
def test_every_subscription_and_start(stream: MakeStream, topics: Topics, topic: str, subscription: str, start: str,
                                      fail_on_data_loss: str) -> None:
    """Starting position, recovery, data that came while the stream was stopped, partitions that were added."""
    topics.create(topic, 2, retention_ms="-1")
    for partition, values in enumerate(([0, 1, 2], [10, 11, 12])):
        for number, value in enumerate(values):
            topics.send(topic, [value], partition, timestamp_ms=START_MS + 1_000 * number)
    options = {"kafka.bootstrap.servers": topics.address, "failOnDataLoss": fail_on_data_loss,
               subscription: {"assign": json.dumps({topic: [0, 1]}), "subscribe": topic,
                              "subscribePattern": f"{topic}|nothing.*"}[subscription]}
    options |= {"latest": {}, "earliest": {"startingOffsets": "earliest"},
                "specific offsets": {"startingOffsets": per_partition(topic, 2, -1)},
                "specific timestamps": {"startingOffsetsByTimestamp": per_partition(topic, START_MS + 1_000, START_MS)},
                "global timestamp": {"startingTimestamp": str(START_MS + 1_500)}}[start]
    expected = {"latest": [], "earliest": [0, 1, 2, 10, 11, 12], "specific offsets": [2],
                "specific timestamps": [1, 2, 10, 11, 12], "global timestamp": [2, 12]}[start]
    running = stream(options)
    assert (running.batch() or []) == expected
    topics.send(topic, [3], 0)
    running = stream(options, list(running.offsets), running.done)
    assert running.batch() == [3]
    topics.grow(topic, 3)
    topics.send(topic, [20, 21], 2)
    topics.send(topic, [13], 1)
    assert running.batch() == ([13] if subscription == "assign" else [13, 20, 21])


def test_non_matching_timestamps(stream: MakeStream, topics: Topics, topic: str) -> None:
    by_times(topics, topic)
    late = query(topics, topic, startingTimestamp=str(START_MS + 10**9))
    with pytest.raises(InvalidArgumentError, match="has no record of that time or later"):
        stream(late)
    running = stream(late | {"startingOffsetsByTimestampStrategy": "latest"})
    topics.send(topic, [99], 0)
    assert running.batch() == [99]


@pytest.mark.parametrize(("option", "value"), [
    ("endingOffsets", "latest"), ("endingTimestamp", "1"), ("endingOffsetsByTimestamp", "{}"),
    ("startingOffsets", "newest"), ("maxOffsetsPerTrigger", "-1"), ("minOffsetsPerTrigger", "many"),
    ("minPartitions", "a"), ("minPartitions", "1.0"), ("minPartitions", "0"), ("minPartitions", "-1"),
])
def test_bad_source_options(option: str, value: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"option {option}"):
        Stream({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", option: value})


# --- restarts

def test_a_batch_that_was_planned_is_repeated_as_it_was(stream: MakeStream, topics: Topics, topic: str) -> None:
    topics.create(topic)
    topics.send(topic, range(5))
    running = stream(query(topics, topic, startingOffsets="earliest"))
    assert running.plan()
    first = running.run()
    topics.send(topic, range(5, 9))
    restarted = Stream.__new__(Stream)
    restarted.reader, restarted.offsets, restarted.done = running.reader, running.offsets, 0
    assert restarted.run() == first


def test_available_now_with_partitions_added_and_a_retry(stream: MakeStream, topics: Topics, topic: str) -> None:
    """SPARK-53560."""
    topics.create(topic)
    topics.send(topic, range(5))
    running = stream(query(topics, topic, startingOffsets="earliest"))
    assert running.batch() == list(range(5))
    topics.grow(topic, 2)
    topics.send(topic, [10, 11], 1)
    assert running.plan()  # and the query dies before the batch ends
    retried = again(stream, running, available_now=True)
    assert retried.done == 2
    assert retried.batch() is None


def test_available_now_when_something_becomes_unavailable(stream: MakeStream, topics: Topics, topic: str) -> None:
    topics.create(topic, 2)
    topics.send(topic, range(10), 0)
    topics.send(topic, range(10, 20), 1)
    running = stream(query(topics, topic, startingOffsets="earliest", maxOffsetsPerTrigger="4"), available_now=True)
    assert len(running.batch() or ()) == 4
    topics.delete(topic)
    topics.create(topic)                     # without the second partition
    topics.send(topic, range(100, 105), 0)   # and with less than was planned to be read
    with pytest.raises(DataLossError, match=f"topic {topic} was deleted and created again"):
        running.plan()
    before = Mark({TopicPartition(topic, 0): 2, TopicPartition(topic, 1): 2})
    now = Mark({TopicPartition(topic, 0): 10})
    with pytest.raises(DataLossError, match=f"{topic}-1: these partitions are deleted"):
        changes(before, now, before, fail_on_data_loss=True)
    target = Mark({TopicPartition(topic, 0): 12})
    with pytest.raises(DataLossError, match=f"{topic}-0: the log's end was changed from 12 to 10"):
        changes(Mark({TopicPartition(topic, 0): 2}), now, target, fail_on_data_loss=True)


# --- topics that change

def test_a_pattern_that_nothing_matches_yet(stream: MakeStream, topics: Topics, topic: str) -> None:
    """No offsets are recorded for missing topics; a new topic is read from its front."""
    options = {"kafka.bootstrap.servers": topics.address, "subscribePattern": f"{topic}-.*"}
    running = stream(options)
    assert json.loads(running.offsets[0]) == {}
    assert running.batch() is None and len(running.offsets) == 1
    topics.create(f"{topic}-a", 2)
    topics.send(f"{topic}-a", [1, 2], 1)
    assert running.batch() == [1, 2]


def test_delete_a_topic_while_a_job_runs(stream: MakeStream, topics: Topics, topic: str) -> None:
    for name in "ab":
        topics.create(f"{topic}-{name}")
        topics.send(f"{topic}-{name}", range(5))
    running = stream({"kafka.bootstrap.servers": topics.address, "subscribePattern": f"{topic}-.*",
                      "startingOffsets": "earliest", "failOnDataLoss": "false", "kafkaConsumer.pollTimeoutMs": "500"})
    assert running.plan()
    topics.delete(f"{topic}-a")              # between planning and reading
    assert [int(row["value"]) for row in running.run()] == list(range(5))
    topics.send(f"{topic}-b", [5])
    assert running.batch() == [5]


def test_stress_with_topics_and_partitions(stream: MakeStream, topics: Topics, topic: str) -> None:
    """Topics are created, grow and are deleted at random; each record of those that stay is read once."""
    chance = random.Random(7)
    partitions: dict[str, int] = {}
    names = iter(f"{topic}-{number}" for number in range(100))
    value, wanted, seen = 0, set[int](), list[int]()
    running = stream({"kafka.bootstrap.servers": topics.address, "subscribePattern": f"{topic}-.*",
                      "startingOffsets": "earliest", "failOnDataLoss": "false"})
    for step in range(40):
        what = chance.choice(["create", "grow", "delete", "send", "send", "send"]) if partitions else "create"
        name = chance.choice(sorted(partitions)) if partitions else ""
        if what == "create":
            name = next(names)
            partitions[name] = chance.randint(1, 3)
            topics.create(name, partitions[name])
        elif what == "grow":
            partitions[name] += 1
            topics.grow(name, partitions[name])
        elif what == "delete":
            seen += running.batch() or []    # its records must not be lost
            topics.delete(name)
            del partitions[name]
        else:
            values = range(value, value + chance.randint(1, 20))
            topics.send(name, values, chance.randrange(partitions[name]))
            wanted.update(values)
            value = values.stop
        if step % 3 == 0:
            seen += running.batch() or []
    seen += running.batch() or []
    assert sorted(seen) == sorted(wanted)


@pytest.mark.parametrize(("options", "group"), [
    ({}, "spark-kafka-source"), ({"groupIdPrefix": "mine"}, "mine"), ({"kafka.group.id": "exactly"}, "exactly"),
])
def test_group_ids(topics: Topics, topic: str, monkeypatch: pytest.MonkeyPatch, options: dict[str, str],
                   group: str) -> None:
    """The group id is that of the library's consumer, where our own connections lack the security."""
    topics.create(topic)
    topics.send(topic, [1])
    groups: list[str] = []

    def consumer(settings: dict[str, Any]) -> confluent_kafka.Consumer:
        groups.append(settings["group.id"])
        return confluent_kafka.Consumer(settings)

    monkeypatch.setattr(library_fetch, "Consumer", consumer)
    monkeypatch.setattr(cluster, "own_security", lambda _client: None)
    assert len(rows(query(topics, topic, **options))) == 1
    assert all(each == group or (each.startswith(group) and "kafka.group.id" not in options) for each in groups)
    assert groups


# --- topics that are created again, or pruned

def test_new_topic_that_matches_the_pattern_is_picked_up_at_earliest(stream: MakeStream, topics: Topics,
                                                                    topic: str) -> None:
    topics.create(f"{topic}-a")
    running = stream({"kafka.bootstrap.servers": topics.address, "subscribePattern": f"{topic}-.*"})
    topics.send(f"{topic}-a", [1])
    assert running.batch() == [1]
    topics.create(f"{topic}-b")
    topics.send(f"{topic}-b", [2, 3])
    assert running.batch() == [2, 3]


def test_subscribing_by_pattern_with_topic_deletions(stream: MakeStream, topics: Topics, topic: str) -> None:
    for name in "ab":
        topics.create(f"{topic}-{name}")
        topics.send(f"{topic}-{name}", [ord(name)])
    running = stream({"kafka.bootstrap.servers": topics.address, "subscribePattern": f"{topic}-.*",
                      "startingOffsets": "earliest", "failOnDataLoss": "false"})
    assert running.batch() == [ord("a"), ord("b")]
    topics.delete(f"{topic}-a")
    topics.send(f"{topic}-b", [7])
    assert running.batch() == [7]
    strict = stream({"kafka.bootstrap.servers": topics.address, "subscribePattern": f"{topic}-.*"},
                    list(running.offsets[:2]), 1)
    with pytest.raises(DataLossError, match=f"{topic}-a-0: these partitions are deleted"):
        strict.plan()


def test_topic_recreation_between_batches_fails(stream: MakeStream, topics: Topics, topic: str) -> None:
    topics.create(topic)
    topics.send(topic, [0, 1])
    running = stream(query(topics, topic, startingOffsets="earliest"))
    assert running.batch() == [0, 1]
    topics.delete(topic)
    topics.create(topic)
    topics.send(topic, [2, 3, 4])
    with pytest.raises(DataLossError, match=f"topic {topic} was deleted and created again"):
        running.plan()
    lenient = stream(query(topics, topic, failOnDataLoss="false"), list(running.offsets), running.done)
    assert lenient.batch() == [2, 3, 4]


def test_deleted_records_are_named(stream: MakeStream, topics: Topics, topic: str) -> None:
    topics.create(topic)
    topics.send(topic, range(10))
    running = stream(query(topics, topic, startingOffsets="earliest", maxOffsetsPerTrigger="3"))
    assert running.batch() == [0, 1, 2]
    topics.delete_records(topic, 0, 7)
    assert running.plan()
    with pytest.raises(DataLossError, match=re.escape(f"{topic}-0 [3, 6)")):
        running.run()
    lenient = stream(query(topics, topic, failOnDataLoss="false"), list(running.offsets[:2]), 1)
    assert lenient.batch() == [7, 8, 9]


# --- groups, keys, directories

def committed(topics: Topics, group: str, topic: str, partitions: int) -> list[int]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": topics.address, "group.id": group, "log_level": 2})
    try:
        found = consumer.committed([confluent_kafka.TopicPartition(topic, each) for each in range(partitions)], 10.0)
        return [each.offset for each in found]
    finally:
        consumer.close()


def test_offsets_are_published_in_step_with_the_checkpoint(stream: MakeStream, topics: Topics, topic: str) -> None:
    topics.create(topic, 2)
    topics.send(topic, range(6), 0)
    running = stream(query(topics, topic, startingOffsets="earliest", publishOffsets=f"group-{topic}",
                           maxOffsetsPerTrigger="4"))
    assert running.batch() == [0, 1, 2, 3]
    assert committed(topics, f"group-{topic}", topic, 2) == [0, 0], "the first batch was not noted as done yet"
    assert running.batch() == [4, 5]
    assert committed(topics, f"group-{topic}", topic, 2) == [4, 0]
    assert running.batch() is None
    assert committed(topics, f"group-{topic}", topic, 2) == [6, 0]


def test_include_headers_default_keeps_old_checkpoints(stream: MakeStream, topics: Topics, topic: str) -> None:
    topics.create(topic)
    topics.send(topic, [1], headers=[("a", b"b")])
    running = stream(query(topics, topic, startingOffsets="earliest"))
    assert running.plan()
    row = running.run()[0]
    assert "headers" not in row
    topics.send(topic, [2], headers=[("a", b"c")])
    later = stream(query(topics, topic, includeHeaders="true"), list(running.offsets), running.done)
    assert later.plan()
    assert later.run()[0]["headers"] == [{"key": "a", "value": b"c"}]


def test_a_stream_of_log_directories(stream: MakeStream, tmp_path: Path) -> None:
    with LogDir(tmp_path / "data") as directory:
        log = directory.log("orders", 0)
        log.append_record(b"1")
        running = stream({"path": str(tmp_path / "data"), "startingOffsets": "earliest"})
        assert running.batch() == [1]
        assert running.batch() is None
        log.append_record(b"2")
        directory.log("orders", 1, topic_id=directory.topic_id("orders", 0)).append_record(b"3")
        assert running.batch() == [2, 3]
        del log
    with pytest.raises(InvalidArgumentError, match="publishOffsets"):
        Stream({"path": str(tmp_path / "data"), "publishOffsets": "group"})


def test_a_deleted_topic_does_not_end_a_query_that_may_lose_data(topics: Topics, topic: str,
                                                                 caplog: pytest.LogCaptureFixture,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    """The source's own classes plan and read, as Spark calls them."""
    monkeypatch.setattr(fetch, "DELETED_SECONDS", 0.0)
    other = f"{topic}-other"
    for name in (topic, other):
        topics.create(name)
        topics.send(name, range(3))
    source = KraftSource(CaseInsensitiveDict({
        "kafka.bootstrap.servers": topics.address, "subscribe": f"{topic},{other}", "startingOffsets": "earliest",
        "failOnDataLoss": "false"}))
    stream = source.streamReader(source.schema())
    assert isinstance(stream, StreamReader)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    tasks = stream.partitions(start, end)
    topics.delete(other)
    topics.send(topic, range(3))
    rows = [row for task in tasks for batch in stream.read(task) for row in batch.to_pylist()]
    assert [row["topic"] for row in rows] == [topic] * 3
    assert f"{other}-0 [0, 3): the topic was deleted" in caplog.text
    latest = stream.latestOffset(end, ReadAllAvailable())
    assert latest[topic] == {"0": 6} and other not in latest
    assert f"option subscribe: {other}: deleted, or never created" in caplog.text
    [task] = stream.partitions(end, latest)
    assert sum(len(batch) for batch in stream.read(task)) == 3
    stream.stop()
