"""A connection that closes removes its pending requests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from tests.native.serve.test_produce_connection import PRODUCE, base_offset, produce
from tests.native.serving import NODE_ID, Node, serving
from tests.native.wires import Bench, replies, request

FETCH, VERSION = ApiKey.FETCH, 11


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with serving(tmp_path) as made:
        yield made


@pytest.fixture
def bench(node: Node) -> Iterator[Bench]:
    made = Bench()
    made.channel.serve(PRODUCE, 3, 13, 9, node.produce_handler)
    made.channel.serve(FETCH, 4, 18, 12, node.fetch_handler)
    yield made
    made.end()
    assert made.failures == []


def fetch(correlation_id: int) -> bytes:
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    body = FetchRequest(max_wait_ms=100_000, min_bytes=1, max_bytes=1000,
                        topics=[FetchTopic(topic="t", partitions=[part])])
    return request(FETCH, VERSION, correlation_id, body.encode(VERSION))


def test_fetches_are_let_go(bench: Bench, node: Node) -> None:
    node.partition()
    going, staying = bench.connect(), bench.connect()
    going.feed(fetch(1) + fetch(2) + fetch(3))
    staying.feed(fetch(4))
    assert (node.purgatory.parked_fetches, node.fetch_handler.waiting_entries) == (4, 4)
    going.abort()
    going.finish_closing()
    assert (node.purgatory.parked_fetches, node.fetch_handler.waiting_entries) == (1, 1)
    other = bench.connect()
    other.feed(produce(5))
    node.purgatory.drain()
    bench.settle()
    assert [number for number, _ in replies(staying.received)] == [4]
    assert node.purgatory.parked_count == 0
    assert going.received == b""


def test_produces_that_wait_for_replicas_are_let_go(bench: Bench, node: Node) -> None:
    partition = node.partition(leader=False, high_watermark="manual")
    partition.become_leader(0, node_id=NODE_ID, replicas=[NODE_ID, 2], isr=[NODE_ID, 2])
    going, staying = bench.connect(), bench.connect()
    going.feed(produce(1, acks=-1))
    staying.feed(produce(2, acks=-1))
    assert node.purgatory.parked_produces == 2
    going.abort()
    going.finish_closing()
    assert node.purgatory.parked_produces == 1
    partition.set_isr([NODE_ID])
    node.purgatory.drain()
    bench.settle()
    assert [(number, base_offset(body)) for number, body in replies(staying.received)] == [(2, 1)]
    assert node.produce_handler.error_counts() == {}
