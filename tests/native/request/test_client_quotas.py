"""Quotas of clients: what is counted, what the replies report, and muted connections (KIP-13, KIP-219)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.fetch_response import FetchResponse
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft_native.partition.purgatory import now_ms
from kraft_native.request.client_quotas import ClientQuotas
from kraft_native.request.replication_quota import ReplicationQuota
from kraft_native.serve.fetch import FetchHandler
from kraft_native.serve.produce import ProduceHandler
from tests.native.logs import batch
from tests.native.serving import Node, fetch_response, produce_response, serving
from tests.native.wires import API_VERSIONS, BODIES, METADATA, Bench, replies, request

Meter = ReplicationQuota | None


class Limits:
    """Quotas of a client `slow`, over samples so long that none ends in a test."""

    def __init__(self, bytes_per_second: int) -> None:
        self.looked_up: list[bytes] = []
        self.principals: list[object] = []
        self.producing, self.fetching, self.time = (ReplicationQuota(samples=2, sample_ms=1 << 40) for _ in range(3))
        self.limits_time = False
        self.set_rate(bytes_per_second)
        self.quotas = ClientQuotas()
        self.quotas.look_up_with(self.find)

    def set_rate(self, bytes_per_second: int) -> None:
        self.producing.set_rate(bytes_per_second)
        self.fetching.set_rate(bytes_per_second)

    def limit_time(self, percentage: float) -> None:
        self.time.set_rate(int(percentage * 10_000_000))
        self.limits_time = True
        self.set_rate(1 << 60)
        self.quotas.look_up_with(self.find)

    def find(self, client_id: bytes, principal: object) -> tuple[Meter, Meter, Meter]:
        self.looked_up.append(client_id)
        self.principals.append(principal)
        time = self.time if self.limits_time else None
        return (self.producing, self.fetching, time) if client_id == b"slow" else (None, None, None)


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
def test_produce_reports_the_throttle_time(node: Node, limits: Limits, version: int) -> None:
    node.partition()
    reply = node.produce(batch(2), version=version, client_id=b"slow")
    response = produce_response(reply)
    assert response.throttle_time_ms == reply.throttle_ms > 0
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    assert produce_response(node.produce(batch(2), version=version, client_id=b"quick")).throttle_time_ms == 0
    assert produce_response(node.produce(batch(2), version=version, client_id=b"quick")).throttle_time_ms == 0
    assert limits.looked_up == [b"slow", b"quick"], "once for each"
    assert limits.producing.bytes_total > len(batch(2))
    limits.set_rate(1 << 40)
    assert produce_response(node.produce(batch(2), version=version, client_id=b"slow")).throttle_time_ms == 0


def test_fetch_reports_it_too_and_returns_no_more_than_one_burst(node: Node, limits: Limits) -> None:
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
    found = fetch_response(node.fetch(("t", 0, 0), client_id=b"slow"))
    assert found.throttle_time_ms > 0
    assert (found.responses, found.error_code) == ([], ErrorCode.NONE), "nothing more comes"
    assert limits.fetching.bytes_total == one, "and it does not count"
    limits.set_rate(1 << 40)
    assert fetch(b"slow") == (0, whole)
    assert limits.fetching.bytes_total == one + whole


def test_a_throttled_fetch_neither_begins_a_session_nor_goes_on_with_it(node: Node, limits: Limits) -> None:
    partition = node.partition()
    partition.append(batch(2))
    limits.fetching.record(1 << 20, now_ms())
    refused = fetch_response(node.fetch(("t", 0, 0), client_id=b"slow", session_epoch=0))
    assert (refused.session_id, refused.responses) == (0, []) and refused.throttle_time_ms > 0
    limits.set_rate(1 << 60)
    begun = fetch_response(node.fetch(("t", 0, 0), client_id=b"slow", session_epoch=0))
    session = {"session_id": begun.session_id, "client_id": b"slow"}
    assert begun.session_id > 0 and begun.responses
    partition.append(batch(3))
    moved = FetchPartition(partition=0, fetch_offset=2, partition_max_bytes=1 << 20)
    limits.set_rate(0)
    empty = fetch_response(node.fetch(("t", moved), session_epoch=1, **session))
    assert (empty.session_id, empty.error_code, empty.responses) == (begun.session_id, ErrorCode.NONE, [])
    assert empty.throttle_time_ms > 0
    limits.set_rate(1 << 60)
    after = fetch_response(node.fetch(session_epoch=2, **session))
    assert after.responses[0].partitions[0].records == bytes(partition.log.read(2, 1 << 20)), "not returned before"


def test_without_quotas_no_client_is_looked_up(node: Node, limits: Limits) -> None:
    node.partition()
    limits.quotas.look_up_with(None)
    assert produce_response(node.produce(batch(2), client_id=b"slow")).throttle_time_ms == 0
    assert limits.looked_up == []


def test_a_connection_is_left_alone_for_that_time(tmp_path: Path) -> None:
    bench = Bench()
    limits = Limits(0)
    with serving(tmp_path) as node:
        node.partition()
        bench.channel.serve(ApiKey.PRODUCE, 3, 13, 9, ProduceHandler(node.table, None, limits.quotas))
        body = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(
            name="t", partition_data=[PartitionProduceData(index=0, records=batch(1))])]).encode(12)
        wire = bench.connect()
        bench.answer_with = b"answer"
        [connection] = bench.channel.connections
        connection.principal = "alice"
        wire.feed(request(0, 12, 1, body, b"slow", tags=b"\0") + request(METADATA, 1, 2, b""))
        bench.settle()
        assert [correlation_id for correlation_id, _ in replies(wire.received)] == [1], "answered at once"
        assert (limits.looked_up, limits.principals) == ([b"slow"], ["alice"]), "the user counts, too"
        [(seconds, unmute)] = bench.timers
        assert seconds > 0
        unmute()
        bench.settle()
        assert [correlation_id for correlation_id, _ in replies(wire.received)] == [1, 2]
        bench.end()


def test_the_time_of_requests_is_limited(tmp_path: Path) -> None:
    """Produce, Fetch and ApiVersions are charged alike, by their handlers' times; the replies of the first two
    report it."""
    bench = Bench()
    limits = Limits(0)
    limits.limit_time(0)
    with serving(tmp_path) as node:
        node.partition()
        bench.channel.serve(ApiKey.PRODUCE, 3, 13, 9, ProduceHandler(node.table, None, limits.quotas))
        bench.channel.serve(ApiKey.FETCH, 4, 18, 12, FetchHandler(node.table, node.sessions, quotas=limits.quotas))
        bench.channel.limit_clients(limits.quotas)

        def send(api_key: int, version: int, body: bytes, client: bytes = b"slow") -> tuple[bytes, int]:
            """Send a request; return the reply and the number of timers that it set."""
            wire, timers = bench.connect(), len(bench.timers)
            wire.feed(request(api_key, version, 1, body, client, tags=b"\0" if api_key != API_VERSIONS else b""))
            bench.settle()
            [(_, answer)] = replies(wire.received)
            return answer, len(bench.timers) - timers

        body = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(
            name="t", partition_data=[PartitionProduceData(index=0, records=batch(1))])]).encode(12)
        answer, timers = send(0, 12, body)
        assert timers == 1 and ProduceResponse.decode(answer[1:], 12).throttle_time_ms > 0
        counted = limits.time.bytes_total
        assert counted > 0, "nanoseconds"
        fetch = FetchRequest(max_wait_ms=0, session_epoch=-1, max_bytes=1 << 20, topics=[FetchTopic(
            topic="t", partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)])]).encode(12)
        answer, timers = send(1, 12, fetch)
        answered = FetchResponse.decode(answer[1:], 12)
        assert timers == 1 and answered.throttle_time_ms > 0 and answered.responses == []
        assert limits.time.bytes_total > counted
        counted = limits.time.bytes_total
        assert send(API_VERSIONS, 0, b"") == (BODIES[0], 1)
        assert limits.time.bytes_total > counted
        counted = limits.time.bytes_total
        unanswered = body.replace(b"\0\x01\0\0\x03\xe8", b"\0\0\0\0\x03\xe8", 1)
        wire = bench.connect()
        wire.feed(request(0, 12, 1, unanswered, b"slow", tags=b"\0"))
        bench.settle()
        assert limits.time.bytes_total == counted, "without an answer nothing can be reported"
        assert send(API_VERSIONS, 0, b"", b"quick") == (BODIES[0], 0)
        assert send(0, 12, body, b"quick")[1] == 0
        limits.limit_time(1e9)
        assert send(0, 12, body)[1] == 0
        bench.end()


def test_the_time_of_a_request_is_that_of_its_handler(tmp_path: Path) -> None:
    """The time excludes waiting for others, and is complete however long after the charge the handler returns."""
    bench = Bench()
    limits = Limits(0)
    limits.limit_time(50)
    wire = bench.connect()
    wire.feed(request(METADATA, 1, 1, b"", b"slow"))
    [(reply, *_)] = bench.requests
    limits.quotas.charge_time(reply)
    first = limits.time.bytes_total
    assert first > 0
    limits.quotas.charge_time(reply)
    assert limits.time.bytes_total == first, "its handler has returned"
    reply.answer(b"answer", 0)
    bench.settle()
    assert limits.time.bytes_total == first
    bench.end()
