"""Writing: the behaviours of Spark's own Kafka connector (KafkaSinkSuite) by its names, and exactly once, which it
lacks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import functions as f
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.pandas.types import from_arrow_schema

from kraft.client import Cluster, RefusedError
from kraft.client.producer import Producer
from kraft.spark import library_transaction
from kraft.spark.client_options import library_settings
from kraft.spark.library_produce import library_send
from kraft.spark.sink import StreamWriter, Written
from kraft.spark.source import KraftSource
from kraft.spark.staging import Decision, Staging
from kraft_native.base.errors import InvalidArgumentError
from tests.spark.reading import rows
from tests.spark.test_relation import query
from tests.spark.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


def batch_of(values: range | list[Any], **columns: pa.Array) -> pa.RecordBatch:
    made = {"value": pa.array([str(each).encode() for each in values], pa.binary()), **columns}
    return pa.RecordBatch.from_arrays(list(made.values()), names=list(made))


def stream_writer(options: dict[str, str], schema: pa.Schema | None = None) -> StreamWriter:
    source = KraftSource(CaseInsensitiveDict(options))
    found = source.streamWriter(from_arrow_schema(schema or batch_of([0]).schema), False)
    assert isinstance(found, StreamWriter)
    return found


def write(options: dict[str, str], *batches: pa.RecordBatch) -> None:
    """Run a batch query of one task."""
    source = KraftSource(CaseInsensitiveDict(options))
    writer = source.writer(from_arrow_schema(batches[0].schema), False)
    writer.commit([writer.write(iter(batches))])


@pytest.fixture(params=["batch", "stream"])
def written_by(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., None]:
    """Write as a batch query, or as the next batch of a stream, exactly once."""
    numbers = itertools.count()

    def write_stream(options: dict[str, str], *batches: pa.RecordBatch) -> None:
        writer = stream_writer({**options, "checkpointLocation": str(tmp_path)}, batches[0].schema)
        writer.commit([task_of(writer, batches)], next(numbers))

    return write if request.param == "batch" else write_stream


def found(topics: Topics, topic: str, *columns: str, **options: str) -> list[dict[str, Any]]:
    return rows(query(topics, topic, **options), *columns)


def values(topics: Topics, topic: str) -> list[int]:
    """Return what readers of committed records see, once all ended transactions are marked in their partitions."""
    topics.settle()
    return sorted(int(row["value"]) for row in found(topics, topic, "value",
                                                     **{"kafka.isolation.level": "read_committed"}))


# --- batch queries

def test_batch_write_to_kafka(spark: SparkSession, topics: Topics, topic: str) -> None:
    topics.create(topic, 2)
    frame = spark.range(100).select(f.col("id").cast("string").alias("key"), f.concat(f.col("id")).alias("value"))
    frame.write.format("kraft").options(**{"kafka.bootstrap.servers": topics.address, "topic": topic}).mode(
        "append").save()
    assert values(topics, topic) == list(range(100))
    with pytest.raises(Exception, match="cannot be overwritten; use mode append"):
        frame.write.format("kraft").options(**{"kafka.bootstrap.servers": topics.address, "topic": topic}).mode(
            "overwrite").save()
    with pytest.raises(Exception, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        frame.write.format("kraft").options(**{"kafka.bootstrap.servers": topics.address, "topic": topic}).mode(
            "ignore").save()


def test_batch_write_with_headers(topics: Topics, topic: str) -> None:
    topics.create(topic)
    headers = pa.array([[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], [], None], HEADERS)
    write({"kafka.bootstrap.servers": topics.address, "topic": topic}, batch_of([0, 1, 2], headers=headers))
    assert [row["headers"] for row in found(topics, topic, "headers", includeHeaders="true")] == [
        [{"key": "a", "value": b"1"}, {"key": "a", "value": None}], None, None]
    write({"kafka.bootstrap.servers": topics.address, "topic": topic, "includeHeaders": "false"},
          batch_of([3], headers=headers.slice(0, 1)))
    assert found(topics, topic, "headers", includeHeaders="true")[-1]["headers"] is None


def test_topic_field_and_topic_option(topics: Topics, topic: str, written_by: Callable[..., None]) -> None:
    for name in "ab":
        topics.create(f"{topic}-{name}")
    column = pa.array([f"{topic}-a", f"{topic}-b", f"{topic}-a"])
    written_by({"kafka.bootstrap.servers": topics.address}, batch_of(range(3), topic=column))
    assert (values(topics, f"{topic}-a"), values(topics, f"{topic}-b")) == ([0, 2], [1])
    written_by({"kafka.bootstrap.servers": topics.address, "topic": f"{topic}-b"},
               batch_of([3], topic=column.slice(0, 1)))
    assert values(topics, f"{topic}-b") == [1, 3]


def test_partition_column_and_partitioner_priorities(topics: Topics, topic: str) -> None:
    topics.create(topic, 4)
    partition = pa.array([2, None, None, 0], pa.int32())
    key = pa.array([b"k", b"k", None, None], pa.binary())
    write({"kafka.bootstrap.servers": topics.address, "topic": topic}, batch_of(range(4), partition=partition, key=key))
    placed = {int(row["value"]): row["partition"] for row in found(topics, topic, "value", "partition")}
    topics.send(topic, [10], key=b"k")
    by_kafka = {int(row["value"]): row["partition"] for row in found(topics, topic, "value", "partition")}[10]
    # The library that sent it has another default; murmur2 of "k" in 4 is compared with Kafka's in test_murmur.
    assert placed[0] == 2 and placed[3] == 0 and 0 <= by_kafka < 4
    with pytest.raises(InvalidArgumentError, match=f"column partition: 4 is not one of topic {topic}'s 4 partitions"):
        write({"kafka.bootstrap.servers": topics.address, "topic": topic},
              batch_of([5], partition=pa.array([4], pa.int32())))


def test_null_topic_and_no_option(topics: Topics) -> None:
    with pytest.raises(InvalidArgumentError, match="column topic: a row has none"):
        write({"kafka.bootstrap.servers": topics.address}, batch_of([1], topic=pa.array([None], pa.string())))


def test_non_existing_topic(topics: Topics, written_by: Callable[..., None]) -> None:
    with pytest.raises(RefusedError, match=r"topic nowhere: .*UNKNOWN_TOPIC"):
        written_by({"kafka.bootstrap.servers": topics.address, "topic": "nowhere", "kafka.max.block.ms": "100"},
                   batch_of([1]))


def made_late(monkeypatch: pytest.MonkeyPatch, owner: object, step: str, make: Callable[[], None]) -> None:
    """Create the topic after the first call of that step."""
    take: Callable[..., Any] = getattr(owner, step)

    def late(*arguments: Any) -> Any:
        try:
            return take(*arguments)
        finally:
            if not made:
                made.append(True)
                make()

    made: list[bool] = []
    monkeypatch.setattr(owner, step, late)


def test_a_topic_that_is_made_late(topics: Topics, topic: str, written_by: Callable[..., None],
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker does not know the topic yet, as shortly after its creation."""
    made_late(monkeypatch, Cluster, "topic", lambda: topics.create(topic, 2))
    written_by({"kafka.bootstrap.servers": topics.address, "topic": topic}, batch_of(range(20)))
    assert values(topics, topic) == list(range(20))


def test_a_topic_that_is_made_late_through_the_client_library(topics: Topics, topic: str,
                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    where = {"kafka.bootstrap.servers": topics.address, "topic": topic, "delivery": "at-least-once"}
    with pytest.raises(RefusedError, match="UNKNOWN_TOPIC"):
        library_transaction.library_counts(stream_writer({**where, "kafka.max.block.ms": "100"}).options)(topic)
    made_late(monkeypatch, library_transaction, "library_error", lambda: topics.create(topic, 3))
    assert library_transaction.library_counts(stream_writer(where).options)(topic) == 3


@pytest.mark.parametrize(("columns", "options", "what"), [
    ({"value": pa.binary()}, {}, "option topic: it is required when the data has no column topic"),
    ({"key": pa.binary()}, {"topic": "t"}, "column value: it is required"),
    ({"value": pa.binary(), "topic": pa.int64()}, {}, "column topic: it is bigint, and must be string"),
    ({"value": pa.int64()}, {"topic": "t"}, "column value: it is bigint, and must be string or binary"),
    ({"value": pa.string(), "key": pa.int64()}, {"topic": "t"}, "column key: it is bigint"),
    ({"value": pa.string(), "partition": pa.string()}, {"topic": "t"}, "column partition: it is string, and must be i"),
    ({"value": pa.string(), "headers": pa.string()}, {"topic": "t"}, "column headers: it is string"),
    ({"value": pa.string()}, {"topic": "t", "kafka.key.serializer": "x"}, "kafka.key.serializer: not supported"),
    ({"value": pa.string()}, {"topic": "t", "kafka.acks": "1"}, "kafka.acks: to write exactly once it is all"),
    ({"value": pa.string()}, {"topic": "t", "checkpointLocation": "s3://a/b"}, "not a path of files that all execut"),
    ({"value": pa.string()}, {"topic": "t", "delivery": "twice"}, "option delivery: 'twice'"),
    ({"value": pa.string()}, {"topic": "t", "topics": "u"}, "option topics: there is no such option"),
    ({"value": pa.string()}, {"topic": "t", "kafka.security.protocol": "SSL", "transactions": "false",
                                "kafka.enable.ssl.certificate.verification": "false"},
     "option transactions: exactly-once is not possible without them where only the client library"),
    ({"value": pa.string()}, {"topic": "t", "transactions": "maybe"},
     "option transactions: 'maybe' is not allowed; it is auto or true or false"),
    ({"value": pa.string()}, {"topic": "t", "kafka.compression.type": "rar"}, "'rar' is not one of none, gzip"),
])
def test_bad_schemas_and_options(columns: dict[str, pa.DataType], options: dict[str, str], what: str) -> None:
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "checkpointLocation": "/tmp/nowhere", **options}
    with pytest.raises(InvalidArgumentError, match=what):
        stream_writer(given, pa.schema(list(columns.items())))


def test_a_stream_without_a_place_to_stage() -> None:
    with pytest.raises(InvalidArgumentError, match=r"option stagingLocation: .*or set delivery to at-least-once"):
        stream_writer({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"})


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_big_data(topics: Topics, topic: str, codec: str) -> None:
    topics.create(topic, 3)
    write({"kafka.bootstrap.servers": topics.address, "topic": topic, "kafka.compression.type": codec},
          *(batch_of([f"{number:0200}" for number in range(start, start + 5_000)])
            for start in range(0, 20_000, 5_000)))
    assert values(topics, topic) == list(range(20_000))


def test_through_the_client_library(topics: Topics, topic: str) -> None:
    """The client library writes, as for a cluster with TLS or SASL."""
    topics.create(topic, 2)
    writer = stream_writer({"kafka.bootstrap.servers": topics.address, "topic": topic, "delivery": "at-least-once"})
    library_send(iter([batch_of(range(50), key=pa.array([b"k"] * 50), partition=pa.array([1] * 50, pa.int32()))]),
                 writer.options)
    assert values(topics, topic) == list(range(50))
    assert library_settings({})["client.id"] == "kraft-spark"


# --- exactly once

def test_streaming_write_exactly_once(spark: SparkSession, topics: Topics, topic: str, tmp_path: Path) -> None:
    topics.create(f"{topic}-in", 2)
    topics.create(f"{topic}-out", 2)

    def run() -> None:
        frame = spark.readStream.format("kraft").options(**query(
            topics, f"{topic}-in", startingOffsets="earliest", maxOffsetsPerTrigger="20")).load()
        (frame.select("key", "value").writeStream.format("kraft").outputMode("append")
         .options(**{"kafka.bootstrap.servers": topics.address, "topic": f"{topic}-out"})
         .option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination())

    topics.send(f"{topic}-in", range(30), 0)
    run()
    # Spark died after the sink's commit: it repeats the last batch.
    last = max((tmp_path / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink()
    topics.send(f"{topic}-in", range(30, 40), 1)
    run()
    assert values(topics, f"{topic}-out") == list(range(40))


def test_a_driver_that_died_while_it_noted_its_first_batch(spark: SparkSession, topics: Topics, topic: str,
                                                           tmp_path: Path) -> None:
    """It left a draft of the batch's offsets; the query begins nevertheless."""
    for name in ("in", "out"):
        topics.create(f"{topic}-{name}")
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / ".0.3c3a2f0e-2a6e-4f54-9c0b-2f1f5d1ad8f5.tmp").write_text("v1\n{")
    topics.send(f"{topic}-in", range(10), 0)
    frame = spark.readStream.format("kraft").options(**query(topics, f"{topic}-in", startingOffsets="earliest")).load()
    (frame.select("value").writeStream.format("kraft").outputMode("append")
     .options(**{"kafka.bootstrap.servers": topics.address, "topic": f"{topic}-out"})
     .option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination())
    assert values(topics, f"{topic}-out") == list(range(10))


@pytest.fixture(params=["transactions", "sequences"])
def way(request: pytest.FixtureRequest) -> dict[str, str]:
    """Options of both ways to publish exactly once."""
    return {"transactions": "true" if request.param == "transactions" else "false"}


class StoppedError(Exception):
    """The driver dies here."""


def dying(patch: pytest.MonkeyPatch, owner: type, method: str, after: int, *, done: bool) -> None:
    """Kill the driver at this call of a step: before it does anything, or before the driver learns of its result."""
    calls = iter(range(10**6))
    step: Callable[..., Any] = getattr(owner, method)

    def fail(self: Any, *arguments: Any, **named: Any) -> Any:
        if next(calls) == after:
            if done:
                step(self, *arguments, **named)
            raise StoppedError
        return step(self, *arguments, **named)

    patch.setattr(owner, method, fail)


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    with monkeypatch.context() as patched:
        yield patched


QUERY = "5f0c9a52-0000-0000-0000-000000000001"


def task_of(writer: StreamWriter, rows: Iterable[pa.RecordBatch], query: str = QUERY) -> Written:
    """Run a task of a streaming query; return what it wrote."""
    context = TaskContext()
    context._localProperties = {"sql.streaming.queryId": query}
    TaskContext._setTaskContext(context)
    try:
        return writer.write(iter(rows))
    finally:
        TaskContext._setTaskContext(None)  # type: ignore[arg-type]


def written(writer: StreamWriter, *parts: range, query: str = QUERY) -> list[Written]:
    """Return a batch that two tasks have written, in rows of 100 bytes, so that it has several record batches."""
    return [task_of(writer, [batch_of([f"{number:0100}" for number in part])], query) for part in parts]


def staging(writer: StreamWriter, query: str = QUERY) -> Staging:
    return Staging(writer.options, query)


@pytest.mark.parametrize("sent", [False, True])
@pytest.mark.parametrize("after", [0, 1, 3, 5])
def test_a_driver_that_dies_while_it_publishes(topics: Topics, topic: str, tmp_path: Path, stop: pytest.MonkeyPatch,
                                               way: dict[str, str], after: int, sent: bool) -> None:
    topics.create(topic, 2)
    options = {**way, "kafka.bootstrap.servers": topics.address, "topic": topic, "checkpointLocation": str(tmp_path),
               "kafka.batch.size": "20000"}
    stream_writer(options).commit(written(stream_writer(options), range(100)), 0)
    writer = stream_writer(options)
    messages = written(writer, range(100, 600), range(600, 1_000))
    dying(stop, Producer, "send", after, done=sent)
    with pytest.raises(StoppedError):
        writer.commit(messages, 1)
    writer.abort([*messages, None], 1)  # as Spark does then
    stop.undo()
    # Spark begins again, and the rows come in another order and with other boundaries.
    again = stream_writer(options)
    messages = written(again, range(500, 1_000), range(100, 500))
    again.commit(messages, 1)
    assert values(topics, topic) == list(range(1_000))
    # The batch is repeated, as the driver died before it noted its end: nothing is written.
    again.commit(written(again, range(100, 1_000)), 1)
    again.commit(written(again, range(1_000, 1_010)), 2)
    assert values(topics, topic) == list(range(1_010))
    assert list(staging(again).path.rglob("*.batches")) == []


def test_a_task_that_fails_leaves_nothing(topics: Topics, topic: str, tmp_path: Path, way: dict[str, str]) -> None:
    topics.create(topic)
    writer = stream_writer({**way, "kafka.bootstrap.servers": topics.address, "topic": topic,
                            "checkpointLocation": str(tmp_path)})

    def rows_then_failure() -> Iterator[pa.RecordBatch]:
        yield batch_of(range(10))
        raise StoppedError

    with pytest.raises(StoppedError):
        task_of(writer, rows_then_failure())
    writer.commit(written(writer, range(5)), 0)
    writer.abort([*written(writer, range(7)), None], 1)
    writer.commit([], 1)
    writer.commit(written(writer, range(5, 8)), 2)
    assert values(topics, topic) == list(range(8))
    decision = staging(writer).decision()
    assert decision is not None and decision.done and decision.batch_id == 2


def test_only_tasks_of_a_stream_write_exactly_once(topics: Topics, topic: str, tmp_path: Path) -> None:
    topics.create(topic)
    writer = stream_writer({"kafka.bootstrap.servers": topics.address, "topic": topic,
                            "checkpointLocation": str(tmp_path)})
    with pytest.raises(InvalidArgumentError, match="exactly-once is for tasks of a streaming query"):
        writer.write(iter([batch_of(range(3))]))


def test_queries_that_stage_in_one_place(topics: Topics, topic: str, tmp_path: Path, way: dict[str, str]) -> None:
    """Each query has batches of its own, also one that restarted without its checkpoint."""
    topics.create(topic)
    options = {**way, "kafka.bootstrap.servers": topics.address, "topic": topic, "stagingLocation": str(tmp_path)}
    one, other = stream_writer(options), stream_writer(options)
    for batch in range(2):
        one.commit(written(one, range(batch * 10, batch * 10 + 10), query="one"), batch)
    staged = written(one, range(20, 30), query="one")
    other.commit(written(other, range(100, 110), query="other"), 0)
    one.commit(staged, 2)
    assert values(topics, topic) == [*range(30), *range(100, 110)]


def test_a_driver_that_comes_back_late_changes_nothing(topics: Topics, topic: str, tmp_path: Path,
                                                       stop: pytest.MonkeyPatch, way: dict[str, str]) -> None:
    """It paused before it noted the end of a batch; another driver noted that, and published the next batch."""
    topics.create(topic)
    options = {**way, "kafka.bootstrap.servers": topics.address, "topic": topic, "checkpointLocation": str(tmp_path)}
    late, other = stream_writer(options), stream_writer(options)
    late.commit(written(late, range(10)), 0)
    decide = Staging.decide

    def overtaken(self: Staging, decision: Decision) -> None:
        if decision.done:
            with stop.context() as patched:
                patched.setattr(Staging, "decide", decide)
                for batch in (1, 2):
                    other.commit(written(other, range(batch * 10, batch * 10 + 10)), batch)
        decide(self, decision)

    with stop.context() as patched:
        patched.setattr(Staging, "decide", overtaken)
        late.commit(written(late, range(10, 20)), 1)
    other.commit(written(other, range(30, 40)), 3)
    assert values(topics, topic) == list(range(40))


def test_at_least_once(topics: Topics, topic: str) -> None:
    topics.create(topic)
    writer = stream_writer({"kafka.bootstrap.servers": topics.address, "topic": topic, "delivery": "at-least-once"})
    for _ in range(2):
        writer.commit(written(writer, range(5)), 0)
    assert values(topics, topic) == sorted([*range(5)] * 2)
