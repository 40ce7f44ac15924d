"""Batch queries over a cluster: the behaviours of Spark's own Kafka connector (KafkaRelationSuite), by its names."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict

from kraft.client import RefusedError
from kraft.spark.errors import DataLossError
from kraft.spark.source import KraftSource
from kraft.spark.tasks import TaskRanges
from kraft_native.base.errors import InvalidArgumentError
from tests.spark.reading import reader, rows
from tests.spark.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_MS = 1_700_000_000_000


def per_partition(topic: str, *numbers: int) -> str:
    return json.dumps({topic: {str(partition): number for partition, number in enumerate(numbers)}})


def query(topics: Topics, topic: str, **options: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": topics.address, "subscribe": topic, **options}


def values(options: dict[str, str]) -> list[int]:
    return sorted(int(row["value"]) for row in rows(options, "value"))


def three_partitions(topics: Topics, topic: str) -> None:
    """0 to 9, 10 to 19 and 20."""
    topics.create(topic, 3)
    topics.send(topic, range(10), 0)
    topics.send(topic, range(10, 20), 1)
    topics.send(topic, [20], 2)


def by_times(topics: Topics, topic: str) -> None:
    """Send ten values to each of three partitions, the first at `START_MS`, the others a second apart."""
    topics.create(topic, 3, retention_ms="-1")
    for partition in range(3):
        for number in range(10):
            topics.send(topic, [partition * 10 + number], partition, timestamp_ms=START_MS + 1_000 * number)


def test_explicit_earliest_to_latest_offsets(spark: SparkSession, topics: Topics, topic: str) -> None:
    three_partitions(topics, topic)
    options = query(topics, topic, startingOffsets="earliest", endingOffsets="latest")
    frame = spark.read.format("kraft").options(**options).load().selectExpr("CAST(value AS STRING)")
    assert sorted(int(row.value) for row in frame.collect()) == list(range(21))
    # Another DataFrame sees what came meanwhile; this one stays what it was.
    topics.send(topic, [21], 2)
    again = spark.read.format("kraft").options(**options).load()
    assert (frame.count(), again.count()) == (21, 22)


def test_explicit_offsets(topics: Topics, topic: str) -> None:
    three_partitions(topics, topic)
    options = query(topics, topic, startingOffsets=per_partition(topic, -2, -2, 0),
                    endingOffsets=per_partition(topic, -1, -1, 1))
    assert values(options) == list(range(21))
    topics.send(topic, range(31, 40), 2)     # after the given end
    topics.send(topic, range(21, 31), 1)
    assert values(options) == list(range(31))


def test_reuse_same_dataframe_in_query(spark: SparkSession, topics: Topics, topic: str) -> None:
    three_partitions(topics, topic)
    frame = spark.read.format("kraft").options(**query(topics, topic)).load().selectExpr(
        "CAST(CAST(value AS STRING) AS INT) AS v")
    assert sorted(row.v for row in frame.union(frame).collect()) == sorted([*range(21)] * 2)


def test_kafka_column_types(topics: Topics, topic: str) -> None:
    topics.create(topic)
    source = KraftSource(CaseInsensitiveDict(query(topics, topic, includeHeaders="true")))
    assert source.schema().simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>")
    before = datetime.now(UTC).replace(microsecond=0)
    topics.send(topic, [1], key=b"k", timestamp_ms=int(before.timestamp() * 1_000) + 7)
    [row] = rows(query(topics, topic))
    assert row == {"key": b"k", "value": b"1", "topic": topic, "partition": 0, "offset": 0, "timestampType": 0,
                   "timestamp": before + timedelta(milliseconds=7)}


def test_default_starting_and_ending_offsets(topics: Topics, topic: str) -> None:
    three_partitions(topics, topic)
    assert values(query(topics, topic)) == list(range(21))


def test_default_starting_and_ending_offsets_with_headers(topics: Topics, topic: str) -> None:
    topics.create(topic)
    topics.send(topic, [0], headers=[("a", b"b"), ("c", b"d")])
    topics.send(topic, [1], headers=[("e", b"f"), ("e", None)])
    topics.send(topic, [2])
    found = rows(query(topics, topic, includeHeaders="true"))
    assert [row["headers"] for row in found] == [
        [{"key": "a", "value": b"b"}, {"key": "c", "value": b"d"}], [{"key": "e", "value": b"f"},
                                                                     {"key": "e", "value": None}], None]
    assert [(row["topic"], row["partition"], row["offset"], row["timestampType"]) for row in found] == [
        (topic, 0, offset, 0) for offset in range(3)]


def test_timestamp_provided_for_starting_and_ending(topics: Topics, topic: str) -> None:
    by_times(topics, topic)
    options = query(topics, topic,
                    startingOffsetsByTimestamp=per_partition(topic, *(START_MS + 1_000 * n for n in (2, 3, 9))),
                    endingOffsetsByTimestamp=per_partition(topic, *(START_MS + 1_000 * n for n in (4, 3, 20))))
    assert values(options) == [2, 3, 29]


def test_timestamp_provided_for_starting_offset_provided_for_ending(topics: Topics, topic: str) -> None:
    by_times(topics, topic)
    options = query(topics, topic, startingOffsetsByTimestamp=per_partition(topic, *[START_MS + 7_000] * 3),
                    endingOffsets=per_partition(topic, 8, 9, -1))
    assert values(options) == [7, 17, 18, 27, 28, 29]


def test_timestamp_provided_for_ending_offset_provided_for_starting(topics: Topics, topic: str) -> None:
    by_times(topics, topic)
    options = query(topics, topic, startingOffsets=per_partition(topic, 1, -2, 2),
                    endingOffsetsByTimestamp=per_partition(topic, *[START_MS + 2_000] * 3))
    assert values(options) == [1, 10, 11]


def test_timestamp_provided_for_starting_only_and_for_ending_only(topics: Topics, topic: str) -> None:
    by_times(topics, topic)
    at = per_partition(topic, *[START_MS + 8_000] * 3)
    assert values(query(topics, topic, startingOffsetsByTimestamp=at)) == [8, 9, 18, 19, 28, 29]
    assert len(values(query(topics, topic, endingOffsetsByTimestamp=at))) == 24


def test_global_timestamp_provided_for_starting_and_ending(topics: Topics, topic: str) -> None:
    by_times(topics, topic)
    options = query(topics, topic, startingTimestamp=str(START_MS + 4_000), endingTimestamp=str(START_MS + 5_500))
    assert values(options) == [4, 5, 14, 15, 24, 25]


def test_no_matched_offset_for_timestamp(topics: Topics, topic: str) -> None:
    by_times(topics, topic)
    late = str(START_MS + 10**9)
    with pytest.raises(InvalidArgumentError, match=f"startingTimestamp: {topic}-0 has no record of that time or later"):
        rows(query(topics, topic, startingTimestamp=late))
    assert rows(query(topics, topic, startingTimestamp=late, startingOffsetsByTimestampStrategy="latest")) == []
    assert len(values(query(topics, topic, endingTimestamp=late))) == 30


def test_preferences_on_offset_related_options(topics: Topics, topic: str) -> None:
    by_times(topics, topic)
    everything = {
        "startingTimestamp": str(START_MS + 9_000), "endingTimestamp": str(START_MS + 10_000),
        "startingOffsetsByTimestamp": per_partition(topic, *[START_MS + 1_000] * 3),
        "endingOffsetsByTimestamp": per_partition(topic, *[START_MS + 2_000] * 3),
        "startingOffsets": per_partition(topic, 5, 5, 5), "endingOffsets": per_partition(topic, 6, 6, 6),
    }
    assert values(query(topics, topic, **everything)) == [9, 19, 29]
    for name in ("startingTimestamp", "endingTimestamp"):
        del everything[name]
    assert values(query(topics, topic, **everything)) == [1, 11, 21]


@pytest.mark.parametrize(("options", "what"), [
    ({"subscribe": "t", "assign": '{"t":[0]}'}, "exactly one of the options assign, subscribe, subscribePattern"),
    ({}, "exactly one of the options.*not none"),
    ({"assign": ""}, "option assign: ''"), ({"assign": '{"t":1}'}, "option assign"), ({"assign": "[0]"}, "assign"),
    ({"subscribe": " , "}, "option subscribe"), ({"subscribePattern": ""}, "option subscribePattern"),
    ({"subscribePattern": "("}, "option subscribePattern: '\\('"),
    ({"subscribe": "t", "startingOffsets": "latest"}, "a batch query cannot start at the latest"),
    ({"subscribe": "t", "startingOffsets": '{"t":{"0":-1}}'}, "a batch query cannot start at the latest"),
    ({"subscribe": "t", "endingOffsets": "earliest"}, "cannot end at the earliest"),
    ({"subscribe": "t", "endingOffsets": '{"t":{"0":-2}}'}, "cannot end at the earliest"),
    ({"subscribe": "t", "startingOffsets": '{"t":{"0":-3}}'}, "numbers of at least -2"),
    ({"subscribe": "t", "startingTimestamp": "yesterday"}, "option startingTimestamp"),
    ({"subscribe": "t", "failOnDataLoss": "maybe"}, "option failOnDataLoss: 'maybe'.*true or false"),
    ({"subscribe": "t", "minPartitions": "0"}, "option minPartitions: '0'"),
    ({"subscribe": "t", "minPartitions": "a"}, "option minPartitions: 'a'"),
    ({"subscribe": "t", "maxTriggerDelay": "soon"}, "option maxTriggerDelay: 'soon'"),
    ({"subscribe": "t", "path": "/tmp"}, "not both"),
    ({"subscribe": "t", "subscribes": "t"}, "option subscribes: there is no such option"),
    ({"subscribe": "t", "kafka.isolation.level": "serializable"}, "read_uncommitted or read_committed"),
])
def test_bad_batch_query_options(options: dict[str, str], what: str) -> None:
    with pytest.raises(InvalidArgumentError, match=what):
        reader({"kafka.bootstrap.servers": "127.0.0.1:1", **options})


@pytest.mark.parametrize("name", [
    "auto.offset.reset", "key.deserializer", "value.deserializer", "enable.auto.commit", "interceptor.classes",
    "key.serializer", "value.serializer",
])
def test_unsupported_kafka_configs(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=re.escape(f"option kafka.{name}: not supported")):
        reader({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", f"kafka.{name}": "x"})


def test_a_client_option_that_nobody_knows(topics: Topics, topic: str) -> None:
    with pytest.raises(Exception, match=r"no\.such\.option"):
        rows(query(topics, topic, **{"kafka.no.such.option": "1"}))


def test_case_insensitive_parameters(topics: Topics, topic: str) -> None:
    three_partitions(topics, topic)
    found = rows({"KAFKA.bootstrap.SERVERS": topics.address, "SUBSCRIBE": topic, "startingoffsets": "EARLIEST",
                  "INCLUDEHEADERS": "true"}, "value", "headers")
    assert len(found) == 21


def tasks(options: dict[str, str]) -> list[tuple[int, int, int]]:
    """Return (partition, start, end) of each task's only range."""
    found = []
    for task in reader(options).partitions():
        assert isinstance(task, TaskRanges)
        found += [(each.partition, each.start, each.end) for each in task.ranges]
    return found


def test_min_partitions(topics: Topics, topic: str) -> None:
    three_partitions(topics, topic)
    assert len(reader(query(topics, topic)).partitions()) == 1
    found = tasks(query(topics, topic, minPartitions="6"))
    assert len(found) >= 6
    assert sum(end - start for _, start, end in found) == 21
    assert values(query(topics, topic, minPartitions="6")) == list(range(21))
    found = tasks(query(topics, topic, maxRecordsPerPartition="4"))
    assert max(end - start for _, start, end in found) <= 4
    assert values(query(topics, topic, maxRecordsPerPartition="4")) == list(range(21))


def test_topic_partition_for_start_and_end_offset_must_match(topics: Topics, topic: str) -> None:
    three_partitions(topics, topic)
    for name in ("startingOffsets", "endingOffsets", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp"):
        with pytest.raises(InvalidArgumentError, match=f"option {name}: it must name exactly the partitions.*"
                                                       f"Named: {topic}-0; read: {topic}-0, {topic}-1, {topic}-2"):
            rows(query(topics, topic, **{name: per_partition(topic, 0)}))


def test_start_offset_greater_than_end_offset(topics: Topics, topic: str) -> None:
    three_partitions(topics, topic)
    unresolved = query(topics, topic, startingOffsets=per_partition(topic, 5, 5, 0),
                       endingOffsets=per_partition(topic, 4, 5, 1))
    with pytest.raises(InvalidArgumentError, match=f"{topic}-0: the starting offset 5 is greater than the ending off"):
        rows(unresolved)
    resolved = query(topics, topic, startingOffsets=per_partition(topic, 0, 0, 5), endingOffsets="latest")
    with pytest.raises(InvalidArgumentError, match=f"{topic}-2: the starting offset 5 is greater than the ending off"):
        rows(resolved)


def test_assign_and_pattern(topics: Topics, topic: str) -> None:
    three_partitions(topics, topic)
    topics.create(f"{topic}-other")
    topics.send(f"{topic}-other", [100])
    base = {"kafka.bootstrap.servers": topics.address}
    assert values(base | {"assign": json.dumps({topic: [1, 2]})}) == list(range(10, 21))
    assert values(base | {"subscribePattern": f"{topic}-o.*"}) == [100]
    assert values(base | {"subscribePattern": f"{topic}.*"}) == [*range(21), 100]
    assert values(base | {"subscribe": f"{topic},{topic}-other"}) == [*range(21), 100]


def test_a_topic_that_does_not_exist(topics: Topics) -> None:
    with pytest.raises(RefusedError, match=r"option subscribe: nowhere: .*UNKNOWN_TOPIC_OR_PARTITION"):
        rows(query(topics, "nowhere"))
    with pytest.raises(RefusedError, match=r"option assign: nowhere-3: .*UNKNOWN_TOPIC_OR_PARTITION"):
        rows({"kafka.bootstrap.servers": topics.address, "assign": '{"nowhere":[3]}'})


def test_deleted_records_fail_or_are_passed_over(topics: Topics, topic: str) -> None:
    topics.create(topic)
    topics.send(topic, range(30))
    options = query(topics, topic, startingOffsets=per_partition(topic, 0))
    planned = reader(options, "value")
    task = planned.partitions()[0]
    topics.delete_records(topic, 0, 12)
    with pytest.raises(DataLossError, match=re.escape(f"{topic}-0 [0, 12)")):
        rows(options)
    with pytest.raises(DataLossError, match=re.escape(f"{topic}-0 [0, 12)")):
        list(planned.read(task))
    assert values(options | {"failOnDataLoss": "false"}) == list(range(12, 30))
    lenient = reader(options | {"failOnDataLoss": "false"}, "value")
    assert sum(len(batch) for batch in lenient.read(task)) == 18


def test_null_keys_and_values(topics: Topics, topic: str) -> None:
    topics.create(topic)
    topics.send(topic, ["1", None], key=None)
    topics.send(topic, [""], key=b"")
    assert [(row["key"], row["value"]) for row in rows(query(topics, topic))] == [
        (None, b"1"), (None, None), (b"", b"")]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(topics: Topics, topic: str, codec: str) -> None:
    topics.create(topic, compression_type=codec if codec != "none" else "uncompressed")
    topics.send(topic, range(5_000))
    assert values(query(topics, topic)) == list(range(5_000))
    # Answers are small: a range needs many of them.
    assert values(query(topics, topic, **{"kafka.max.partition.fetch.bytes": "3000"})) == list(range(5_000))


def test_through_the_client_library(topics: Topics, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client library, as with security that only it has, reads the same rows."""
    three_partitions(topics, topic)
    topics.send(topic, [None], 2, headers=[("a", b"1"), ("b", None)], key=b"k")
    options = query(topics, topic, includeHeaders="true")
    ours = rows(options)
    from kraft.spark import cluster

    monkeypatch.setattr(cluster, "own_security", lambda _client: None)
    assert sorted(rows(options), key=str) == sorted(ours, key=str)
    topics.delete_records(topic, 0, 4)
    lenient = reader(options | {"startingOffsets": per_partition(topic, 0, 0, 0), "failOnDataLoss": "false"})
    assert sum(len(batch) for task in lenient.partitions() for batch in lenient.read(task)) == 18
