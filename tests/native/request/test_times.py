"""Times of requests: every stage of every request is counted once, when its reply was written."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft_native.request.times import BUCKET_ENDS_NS, NAMES
from tests.native.serve.test_produce_connection import PRODUCE, produce
from tests.native.serving import serving
from tests.native.wires import API_VERSIONS, METADATA, PIPELINED, Bench, Wire, replies, request

TOTAL = NAMES.index("TotalTimeMs")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with serving(tmp_path) as node:
        node.partition()
        made = Bench()
        made.channel.serve(PRODUCE, 3, 13, 9, node.produce_handler)
        yield made
        made.end()
        assert made.failures == []


def counted(bench: Bench) -> dict[int, int]:
    """Return the requests by api key; all stages must agree, and add up to the total."""
    counts = {}
    for key, stages in bench.channel.times.histograms().items():
        assert all(len(buckets) == len(BUCKET_ENDS_NS) + 1 for buckets, _ in stages)
        [counts[key]] = {sum(buckets) for buckets, _ in stages}
        sums = [sum_ns for _, sum_ns in stages]
        assert all(each >= 0 for each in sums)
        assert sum(sums) == 2 * sums[TOTAL]
    return counts


def test_each_request_is_counted_when_its_reply_leaves(bench: Bench) -> None:
    wire = bench.connect()
    wire.feed(produce(1) + request(PIPELINED, 0, 2) + produce(3) + request(API_VERSIONS, 1, 4))
    assert counted(bench) == {PRODUCE: 1}
    bench.requests[0][0].answer(b"late", 0)
    bench.settle()
    assert [number for number, _ in replies(wire.received)] == [1, 2, 3, 4]
    assert counted(bench) == {PRODUCE: 2, PIPELINED: 1, API_VERSIONS: 1}


def test_without_a_reply(bench: Bench) -> None:
    wire = bench.connect()
    wire.feed(produce(1, acks=0) + produce(2, acks=0) + request(PIPELINED, 0, 3) + produce(4, acks=0))
    assert counted(bench) == {PRODUCE: 2}
    assert wire.received == b""
    bench.requests[0][0].answer(b"late", 0)
    bench.settle()
    assert counted(bench) == {PRODUCE: 3, PIPELINED: 1}


def test_more_than_fit_one_write(bench: Bench) -> None:
    wire = bench.connect()
    wire.feed(b"".join(request(API_VERSIONS, 1, number) for number in range(1000)))
    wire.feed(b"".join(produce(number, acks=0) for number in range(700)))
    assert len(list(replies(wire.received))) == 1000
    assert counted(bench) == {API_VERSIONS: 1000, PRODUCE: 700}


def test_waiting_and_refused_requests(bench: Bench) -> None:
    waiting: Wire = bench.connect()
    waiting.feed(request(METADATA, 1, 1))
    refused: Wire = bench.connect()
    refused.feed(request(PRODUCE, 7, 2, b"nonsense"))
    assert counted(bench) == {}
    bench.requests[0][0].answer(b"late", 0)
    bench.settle()
    assert counted(bench) == {METADATA: 1}
    remote, local = (bench.channel.times.histograms()[METADATA][NAMES.index(name)][1]
                     for name in ("RemoteTimeMs", "LocalTimeMs"))
    assert remote > 0
    assert local > 0
