"""The client's own options, `kafka.*`: each has its effect, is documented to have none, or is refused by name."""

from __future__ import annotations

import re
import socket
import time

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.pandas.types import from_arrow_schema

from kraft.client import ConnectionFailedError
from kraft.spark.client_options import WITHOUT_EFFECT
from kraft.spark.encoding import RowEncoder
from kraft.spark.fetch import RangeReader
from kraft.spark.options import read_options
from kraft.spark.sink import BatchWriter
from kraft.spark.source import KraftSource
from kraft.spark.splits import Range
from kraft_native.base.errors import InvalidArgumentError
from tests.spark.reading import reader
from tests.spark.test_relation import query
from tests.spark.test_sink import batch_of
from tests.spark.topics import Topics
from tools.tree import ROOT

NOWHERE = {"kafka.bootstrap.servers": "127.0.0.1:1"}


def writer(**client: str) -> BatchWriter:
    """The writer of a batch query with these client options."""
    given = {**NOWHERE, "topic": "t", **{f"kafka.{name}": value for name, value in client.items()}}
    found = KraftSource(CaseInsensitiveDict(given)).writer(from_arrow_schema(batch_of([0]).schema), False)
    assert isinstance(found, BatchWriter)
    return found


@pytest.mark.parametrize("security", ["PLAINTEXT", "SSL"])
@pytest.mark.parametrize(("name", "value", "what"), [
    ("no.such.option", "1", r"no\.such\.option"),
    ("linger.ms", "soon", "Invalid value"),
    ("request.timeout.ms", "1", r"socket\.timeout\.ms.* outside allowed range"),
    ("partitioner", "random", "option kafka.partitioner: 'random' is not one of murmur2_random"),
    ("partitioner.class", "a.b.C", "option kafka.partitioner.class: not supported; a Java class cannot run"),
    ("security.providers", "a.b.C", "option kafka.security.providers: not supported; a Java class"),
    ("metric.reporters", "a.b.C", "option kafka.metric.reporters: not supported; a Java class"),
])
def test_options_that_a_write_refuses(security: str, name: str, value: str, what: str) -> None:
    with pytest.raises(InvalidArgumentError, match=what):
        writer(**{"security.protocol": security, name: value})


def test_contradictory_options_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"`acks` must be .*`enable\.idempotence` is true"):
        writer(**{"enable.idempotence": "true", "acks": "1"})


def test_options_without_effect_are_accepted_and_documented() -> None:
    [row] = re.findall(r"^\| (.*) \| \| accepted without effect", (ROOT / "docs/spark.md").read_text(), re.MULTILINE)
    assert row.split(", ") == [f"`kafka.{name}`" for name in sorted(WITHOUT_EFFECT)]
    given = dict.fromkeys(WITHOUT_EFFECT, "1")
    assert set(writer(**given).options.client) == {"bootstrap.servers"}
    found = reader({**NOWHERE, "subscribe": "t", **{f"kafka.{name}": value for name, value in given.items()}})
    assert set(found.options.client) == {"bootstrap.servers"}


def test_no_batch_is_larger_than_a_request_may_be() -> None:
    rows = batch_of([f"{number:01000}" for number in range(200)])
    for size, count in (("20000", 11), ("500000", 1)):
        encoder = RowEncoder(writer(**{"max.request.size": size}).options, lambda _: 1)
        batches = [len(batch) for _, batch in [*encoder.add(rows), *encoder.finish()]]
        assert len(batches) == count and max(batches) <= int(size)


def test_a_request_is_given_up_in_time() -> None:
    """A node that accepts requests and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(ConnectionFailedError):
            writer(**{"bootstrap.servers": address, "request.timeout.ms": "200", "acks": "1",
                      "max.block.ms": "0"}).write(iter([batch_of([1])]))
        assert time.monotonic() - began < 15


def test_how_much_an_answer_has(topics: Topics, topic: str) -> None:
    topics.create(topic)
    for number in range(20):
        topics.send(topic, [f"{number:01000}"])
    for options, answers in (({}, 1), ({"kafka.fetch.max.bytes": "3500"}, 7)):
        ranges = RangeReader(read_options(query(topics, topic, **options), streaming=False))
        try:
            assert len(list(ranges.read(Range(topic, 0, 0, 20), ("offset",)))) == answers
        finally:
            ranges.close()


def test_how_long_a_leader_waits() -> None:
    options = read_options({**NOWHERE, "subscribe": "t", "kafka.fetch.min.bytes": "100000",
                            "kafka.fetch.max.wait.ms": "50"}, streaming=False)
    limits = RangeReader(options).fetcher.limits
    assert (limits.min_bytes, limits.wait_ms) == (100_000, 50)
