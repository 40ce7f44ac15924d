"""Quotas of clients: what is counted, what the answers tell, and that a connection is left alone (KIP-13, KIP-219)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft_native.client_quotas import ClientQuotas
from kraft_native.fetch import FetchHandler
from kraft_native.produce import ProduceHandler
from kraft_native.replication_quota import ReplicationQuota
from tests.native.logs import batch
from tests.native.serving import Node, fetch_response, produce_response, serving
from tests.native.wires import METADATA, Bench, replies, request


class Limits:
    """Quotas of a client `slow`, over samples so long that none ends in a test."""

    def __init__(self, bytes_per_second: int) -> None:
        self.asked: list[bytes] = []
        self.producing, self.fetching = (ReplicationQuota(samples=2, sample_ms=1 << 40) for _ in range(2))
        self.set_rate(bytes_per_second)
        self.quotas = ClientQuotas()
        self.quotas.look_up_with(self.find)

    def set_rate(self, bytes_per_second: int) -> None:
        self.producing.set_rate(bytes_per_second)
        self.fetching.set_rate(bytes_per_second)

    def find(self, client_id: bytes) -> tuple[ReplicationQuota | None, ReplicationQuota | None]:
        self.asked.append(client_id)
        return (self.producing, self.fetching) if client_id == b"slow" else (None, None)


@pytest.fixture
def limits() -> Limits:
    return Limits(0)


@pytest.fixture
def node(tmp_path: Path, limits: Limits) -> Iterator[Node]:
    with serving(tmp_path) as made:
        made.produce_handler = ProduceHandler(made.table, None, limits.quotas)
        made.fetch_handler = FetchHandler(made.table, made.sessions, quotas=limits.quotas)
        yield made


def test_a_rate_is_kept_over_all_samples_but_one() -> None:
    quota = ReplicationQuota(samples=11, sample_ms=1000)
    quota.set_rate(1000)
    assert (quota.throttle_ms(50_000), quota.window_bytes()) == (0, 10_000)
    quota.record(10_000, 50_000)
    assert quota.throttle_ms(50_000) == 0
    quota.record(500, 50_100)
    assert quota.throttle_ms(50_100) == 500
    assert quota.throttle_ms(60_100) == 400, "the first sample began 10.1 s ago"
    assert quota.throttle_ms(70_000) == 0


@pytest.mark.parametrize("version", [3, 9, 12])
def test_produce_tells_for_how_long_a_client_is_left_alone(node: Node, limits: Limits, version: int) -> None:
    node.partition()
    reply = node.produce(batch(2), version=version, client_id=b"slow")
    response = produce_response(reply)
    assert response.throttle_time_ms == reply.throttle_ms > 0
    assert response.responses[0].partition_responses[0].error_code == 0
    assert produce_response(node.produce(batch(2), version=version, client_id=b"quick")).throttle_time_ms == 0
    assert produce_response(node.produce(batch(2), version=version, client_id=b"quick")).throttle_time_ms == 0
    assert limits.asked == [b"slow", b"quick"], "once for each"
    assert limits.producing.bytes_total > len(batch(2))
    limits.set_rate(1 << 40)
    assert produce_response(node.produce(batch(2), version=version, client_id=b"slow")).throttle_time_ms == 0


def test_fetch_tells_it_too_and_gives_no_more_than_may_come_at_once(node: Node, limits: Limits) -> None:
    partition = node.partition()
    for _ in range(4):
        partition.append(batch(2))

    def fetch(client_id: bytes) -> tuple[int, int]:
        found = fetch_response(node.fetch(("t", 0, 0), client_id=client_id))
        return found.throttle_time_ms, len(found.responses[0].partitions[0].records or b"")

    whole, one = partition.log.size_bytes, len(batch(2))
    assert fetch(b"quick") == (0, whole)
    throttle_ms, size = fetch(b"slow")
    assert throttle_ms > 0 and size == one, "the first batch comes whole"
    limits.set_rate(1 << 40)
    assert fetch(b"slow") == (0, whole)
    assert limits.fetching.bytes_total == one + whole


def test_without_quotas_nobody_is_asked_for(node: Node, limits: Limits) -> None:
    node.partition()
    limits.quotas.look_up_with(None)
    assert produce_response(node.produce(batch(2), client_id=b"slow")).throttle_time_ms == 0
    assert limits.asked == []


def test_a_connection_is_left_alone_for_that_time(tmp_path: Path) -> None:
    bench = Bench()
    limits = Limits(0)
    with serving(tmp_path) as node:
        node.partition()
        bench.channel.serve(0, 3, 13, 9, ProduceHandler(node.table, None, limits.quotas))
        body = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(
            name="t", partition_data=[PartitionProduceData(index=0, records=batch(1))])]).encode(12)
        wire = bench.connect()
        bench.answer_with = b"answer"
        wire.feed(request(0, 12, 1, body, b"slow", tags=b"\0") + request(METADATA, 1, 2, b""))
        bench.settle()
        assert [correlation_id for correlation_id, _ in replies(wire.received)] == [1], "answered at once"
        [(seconds, unmute)] = bench.timers
        assert seconds > 0
        unmute()
        bench.settle()
        assert [correlation_id for correlation_id, _ in replies(wire.received)] == [1, 2]
        bench.end()
