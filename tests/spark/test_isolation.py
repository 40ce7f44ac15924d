"""Committed records of a running node: a read plans up to the last stable offset, and has nothing of aborted
transactions."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from kraft.cli.command import run
from kraft.log_dir import TopicPartition
from kraft.pipeline.table import live_files
from kraft.spark.library_fetch import LibraryReader
from kraft.spark.options import read_options
from kraft.spark.origin import origin_of
from kraft.spark.positions import batch_spans
from tests.spark.reading import rows
from tests.spark.streams import Stream
from tests.spark.topics import Topics

SECONDS = 20.0
# Markers of transactions are found by their time, too, so records have later times.
BASE_MS = int(time.time() * 1000) + 600_000
OPEN_FROM_MS = BASE_MS + 2_000
COMMITTED = [*range(15)]
LATER = [*range(20, 25), *range(30, 35)]

_numbers = itertools.count()


def time_of(value: int) -> int:
    """Return the time of the record with that value. Aborted ones, from 100 on, are not later than committed ones."""
    return BASE_MS + value % 100 * 100


class Transaction:
    """An open transaction of a producer of its own."""

    def __init__(self, topics: Topics, topic: str, values: Iterable[int]) -> None:
        self._topics = topics
        self._producer = Producer({"bootstrap.servers": topics.address, "log_level": 2, "linger.ms": 0,
                                   "transactional.id": f"isolation-{next(_numbers)}"})
        self._producer.init_transactions(SECONDS)
        self._producer.begin_transaction()
        for value in values:
            self._producer.produce(topic, b"%d" % value, partition=0, timestamp=time_of(value))
        assert self._producer.flush(SECONDS) == 0

    def end(self, *, commit: bool) -> None:
        (self._producer.commit_transaction if commit else self._producer.abort_transaction)(SECONDS)
        self._topics.settle()


@pytest.fixture
def opened(topics: Topics, topic: str) -> Transaction:
    """Write transactions that are committed, aborted, and committed behind an open one, which is returned."""
    topics.create(topic, retention_ms="-1")
    Transaction(topics, topic, range(10)).end(commit=True)
    Transaction(topics, topic, range(100, 110)).end(commit=False)
    for value in range(10, 15):
        topics.send(topic, [value], timestamp_ms=time_of(value))
    found = Transaction(topics, topic, range(20, 25))
    Transaction(topics, topic, range(30, 35)).end(commit=True)
    return found


@pytest.fixture(params=["cluster", "directory"])
def source(request: pytest.FixtureRequest, topics: Topics, topic: str) -> dict[str, str]:
    """Options of the same topic, by way of its node or of the node's files."""
    where = ({"kafka.bootstrap.servers": topics.address} if request.param == "cluster"
             else {"path": str(topics.node.directory)})
    return {**where, "subscribe": topic, "kafka.isolation.level": "read_committed"}


def end_of(options: dict[str, str], topic: str) -> int:
    found = read_options(options, streaming=False)
    origin = origin_of(found)
    try:
        return batch_spans(origin, found)[TopicPartition(topic, 0)][1]
    finally:
        origin.close()


def values(options: dict[str, str]) -> list[int]:
    return [int(row["value"]) for row in rows(options, "offset", "value")]


def test_a_query(topics: Topics, topic: str, opened: Transaction, source: dict[str, str]) -> None:
    first_open = 10 + 1 + 10 + 1 + 5        # records and markers
    assert end_of(source, topic) == first_open
    assert values(source) == COMMITTED
    uncommitted = {**source, "kafka.isolation.level": "read_uncommitted"}
    assert end_of(uncommitted, topic) == first_open + 5 + 5 + 1
    assert len(values(uncommitted)) == 10 + 10 + 5 + 5 + 5
    opened.end(commit=True)
    assert end_of(source, topic) == first_open + 5 + 5 + 2
    assert values(source) == COMMITTED + LATER


def test_times_behind_the_last_stable_offset(topic: str, opened: Transaction, source: dict[str, str]) -> None:
    """A record of an open transaction, or behind it, bounds no read of committed ones."""
    after = {**source, "startingTimestamp": str(OPEN_FROM_MS)}
    assert values({**after, "startingOffsetsByTimestampStrategy": "latest"}) == []
    with pytest.raises(Exception, match=f"option startingTimestamp: {topic}-0 has no record of that time or later"):
        values(after)
    assert values({**source, "endingTimestamp": str(OPEN_FROM_MS)}) == COMMITTED
    assert values({**source, "endingTimestamp": str(OPEN_FROM_MS + 1_000)}) == COMMITTED
    opened.end(commit=False)
    assert values({**source, "startingTimestamp": str(OPEN_FROM_MS + 500)}) == [*range(30, 35)]


def test_a_stream(opened: Transaction, source: dict[str, str]) -> None:
    options = {**source, "startingOffsets": "earliest"}
    stream, ending = Stream(options), Stream(options, available_now=True)
    assert stream.batch() == COMMITTED
    assert stream.batch() is None, "the open transaction holds the end of the stream"
    opened.end(commit=True)
    assert stream.batch() == LATER
    assert ending.batch() == COMMITTED
    assert ending.batch() is None, "it ends where committed records ended when it began"
    stream.close()
    ending.close()


def test_an_export(topics: Topics, topic: str, opened: Transaction, tmp_path: Path) -> None:
    """The command exports committed records, and all of them on request."""
    def exported(name: str, *options: str) -> int:
        assert run(["pipeline", "export", str(tmp_path / name), "--bootstrap", topics.address, "--topic", topic,
                    *options]) == 0
        return sum(file.rows for file in live_files(tmp_path / name))

    assert exported("committed") == len(COMMITTED)
    assert exported("all", "--isolation-level", "read_uncommitted") == exported("too", "--uncommitted") == 35
    opened.end(commit=True)
    assert exported("committed") == len(COMMITTED + LATER)


def test_the_client_library(topics: Topics, topic: str, opened: Transaction) -> None:
    """The library reads from clusters with TLS or SASL."""
    options = read_options({"kafka.bootstrap.servers": topics.address, "subscribe": topic,
                            "kafka.isolation.level": "read_committed"}, streaming=False)
    origin, reader = origin_of(options), LibraryReader(options)

    def found() -> list[Any]:
        return [int(value) for piece in origin.ranges(batch_spans(origin, options))
                for columns in reader.read(piece, ("offset", "value"))
                for value in pa.record_batch(columns)["value"].to_pylist()]

    assert found() == COMMITTED
    opened.end(commit=False)
    assert found() == [*COMMITTED, *range(30, 35)]
    reader.close()
    origin.close()
