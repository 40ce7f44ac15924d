"""Produce behind a connection: ready replies leave in the order of the requests, whatever is in between."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import ProduceResponse
from tests.native.logs import batch
from tests.native.serving import Node, serving
from tests.native.wires import API_VERSIONS, BODIES, METADATA, PIPELINED, Bench, replies, request

PRODUCE, VERSION = ApiKey.PRODUCE, 7


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with serving(tmp_path) as made:
        made.partition()
        yield made


@pytest.fixture
def bench(node: Node) -> Iterator[Bench]:
    made = Bench()
    made.channel.serve(PRODUCE, 3, 13, 9, node.produce_handler)
    yield made
    made.end()
    assert made.failures == []


def produce(correlation_id: int, topic: str = "t", acks: int = 1) -> bytes:
    body = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[
        TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch())])])
    return request(PRODUCE, VERSION, correlation_id, body.encode(VERSION))


def base_offset(body: bytes) -> int:
    part = ProduceResponse.decode(body, VERSION).responses[0].partition_responses[0]
    assert part.error_code == ErrorCode.NONE
    return part.base_offset


def test_many_of_one_read_are_answered_in_one_write(bench: Bench) -> None:
    wire = bench.connect()
    wire.feed(b"".join(produce(number) for number in range(20)))
    assert [(number, base_offset(body)) for number, body in replies(wire.received)] == [(n, n) for n in range(20)]
    assert wire.writes == 1
    assert bench.channel.requests_in_progress == 0


def test_behind_an_open_request_they_wait(bench: Bench) -> None:
    wire = bench.connect()
    wire.feed(produce(1) + request(PIPELINED, 0, 2) + produce(3) + request(API_VERSIONS, 1, 4) + produce(5))
    assert [number for number, _ in replies(wire.received)] == [1]
    bench.requests[0][0].answer(b"late", 0)
    bench.settle()
    assert [number for number, _ in replies(wire.received)] == [1, 2, 3, 4, 5]
    bodies = [body for _, body in replies(wire.received)]
    assert (bodies[1], bodies[3]) == (b"late", BODIES[1])
    assert [base_offset(bodies[place]) for place in (0, 2, 4)] == [0, 1, 2]


def test_any_mixture_leaves_in_order(bench: Bench) -> None:
    """Acks=0, which has no reply, and large frames in several pieces are among them."""
    chance = random.Random(4)
    for _ in range(40):
        wire = bench.connect()
        data, awaited = b"", []
        for number in range(chance.randrange(1, 30)):
            kind = chance.randrange(5)
            data += (produce(number) if kind < 2 else produce(number, acks=0) if kind == 2
                     else request(PIPELINED, 0, number) if kind == 3 else request(API_VERSIONS, 1, number))
            awaited += [number] if kind != 2 else []
        wire.feed(data, at_once=chance.choice([50, 500, 1 << 20]))
        chance.shuffle(bench.requests)
        while bench.requests:
            bench.requests.pop()[0].answer(b"done", 0)
            bench.turn()
        bench.settle()
        assert [number for number, _ in replies(wire.received)] == awaited


def test_a_peer_that_does_not_read_stalls_its_connection(bench: Bench) -> None:
    wire = bench.connect()
    wire.take = 10
    wire.feed(produce(1))
    assert len(wire.received) == 10
    wire.feed(produce(2) + request(METADATA, 1, 3))
    assert bench.requests == [] and len(wire.received) == 10
    wire.read_all()
    bench.settle()
    wire.feed(wire.unread)
    assert [number for number, _ in replies(wire.received)] == [1, 2]
    assert [number for _, number, _, _ in bench.requests] == [METADATA]
