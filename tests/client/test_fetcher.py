"""Batches of a partition from its leaders: leader changes, missing offsets, refusals, and answers on their way."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kraft.client import Cluster, ConnectionFailedError, RefusedError, retries
from kraft.client.fetcher import AT_ONCE, LIMITS, Fetcher, Losses, PartitionFetch
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kraft.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kraft_native.base.errors import CorruptRecordError
from kraft_native.batch.records import BatchBuilder

LOST = ConnectionFailedError("closed")


def batch(offset: int, count: int = 2) -> bytes:
    builder = BatchBuilder("none")
    for number in range(count):
        builder.append(b"value %d" % (offset + number), timestamp_ms=1_700_000_000_000)
    return offset.to_bytes(8, "big") + builder.build()[8:]


class Leader:
    """A cluster whose only node is the leader. It answers each Fetch with the next entry of a script: an error, an
    error code, or records."""

    timeout = 60.0

    def __init__(self, script: Iterable[Any], log_start: int = 0, log_end: int = 100) -> None:
        self.script = iter(script)
        self.log_start = log_start
        self.log_end = log_end
        self.requests: list[FetchRequest] = []
        self.closed = 0
        self.on_its_way: list[FetchRequest] = []

    def leader(self, _topic: str, _partition: int) -> "Leader":
        return self

    def topic(self, name: str) -> Any:
        return SimpleNamespace(name=name, partitions=[SimpleNamespace(partition_index=0, leader_id=1)])

    def node(self, _node_id: int) -> "Leader":
        return self

    def version(self, _key: int, newest: int) -> int:
        return newest

    def close(self) -> None:
        self.closed += 1
        self.on_its_way.clear()

    def send(self, request: Any, _kind: object) -> Any:
        offset = self.log_end if request.topics[0].partitions[0].timestamp == -1 else self.log_start
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[
            ListOffsetsPartitionResponse(partition_index=0, offset=offset)])])

    def post(self, request: FetchRequest, _version: int) -> None:
        assert not self.on_its_way, "an answer that nobody waits for"
        self.on_its_way.append(request)
        self.requests.append(request)

    def answer(self, request: FetchRequest, _kind: object, _version: int) -> FetchResponse:
        assert self.on_its_way.pop() is request
        found = next(self.script)
        if isinstance(found, Exception):
            raise found
        code, records = (found, b"") if isinstance(found, int) else (0, found)
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[
            PartitionData(partition_index=0, error_code=code, high_watermark=100, records=records)])])

    @property
    def offsets(self) -> list[int]:
        return [each.topics[0].partitions[0].fetch_offset for each in self.requests]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries.Attempts, "pause", lambda _: None)


def fetcher(leader: Leader, **options: Any) -> Fetcher:
    return Fetcher(cast(Cluster, leader), **options)


def read(fetch: PartitionFetch) -> list[tuple[int, int]]:
    """Return the wanted start and the size of each part."""
    return [(each.start, len(each.batches)) for each in fetch]


def test_the_next_fetch_is_on_its_way_while_batches_are_used() -> None:
    leader = Leader([batch(0), batch(2), batch(4)])
    for fetched in fetcher(leader).fetch("t", 0, 1, 6):
        assert bytes(fetched.batches) == batch(fetched.start - fetched.start % 2)
        assert len(leader.on_its_way) == (0 if fetched.start == 4 else 1)
    assert leader.offsets == [1, 2, 4] and leader.closed == 0


@pytest.mark.parametrize("failure", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR, LOST])
def test_temporary_failures_lead_to_the_next_leader(failure: Any) -> None:
    leader = Leader([batch(0), failure, b"", batch(2)])
    assert [start for start, _ in read(fetcher(leader).fetch("t", 0, 0, 4))] == [0, 2]
    assert leader.offsets == [0, 2, 2, 2] and leader.closed == 1


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CORRUPT_MESSAGE,
                                  ErrorCode.OFFSET_OUT_OF_RANGE])
def test_other_refusals_end_the_fetch(code: ErrorCode) -> None:
    with pytest.raises(RefusedError, match=r"t-0 \[0, 4\)") as refusal:
        read(fetcher(Leader([code])).fetch("t", 0, 0, 4))
    assert refusal.value.code == code


def test_damaged_batches_are_an_error() -> None:
    damaged = bytearray(batch(0))
    damaged[-1] ^= 1
    with pytest.raises(CorruptRecordError):
        read(fetcher(Leader([bytes(damaged)])).fetch("t", 0, 0, 2))


def test_a_partition_that_returns_nothing_is_an_error_after_the_limit() -> None:
    with pytest.raises(ConnectionFailedError, match=r"nothing came for offset 0; .*watermark is 100"):
        read(fetcher(Leader([b""]), stall_seconds=0).fetch("t", 0, 0, 2))


def test_missing_offsets_and_topics_are_decided_by_the_caller() -> None:
    class Lenient(Losses):
        def resume(self, fetch: PartitionFetch, log_start: int) -> int:
            assert (fetch.offset, log_start) == (1, 6)
            return log_start

        def end_with_topic(self, fetch: PartitionFetch, seconds: float) -> bool:
            return fetch.offset == 8

    leader = Leader([ErrorCode.OFFSET_OUT_OF_RANGE, batch(6), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION], log_start=6)
    assert [start for start, _ in read(fetcher(leader).fetch("t", 0, 1, 20, Lenient()))] == [6]
    assert leader.offsets == [1, 6, 8]


def test_a_seek_drops_the_answer_that_is_on_its_way() -> None:
    leader = Leader([batch(0), batch(1), batch(3)])
    fetch = fetcher(leader).fetch("t", 0, 0, 5)
    starts = []
    for fetched in fetch:
        starts.append(fetched.start)
        if fetched.start == 0:
            fetch.seek(1)
    assert starts == [0, 1, 3] and leader.offsets == [0, 2, 1, 3] and leader.closed == 1


def test_an_abandoned_fetch_leaves_no_answer_on_its_way() -> None:
    leader = Leader([batch(0), batch(2)])
    parts = iter(fetcher(leader).fetch("t", 0, 0, 4))
    next(parts)
    assert leader.on_its_way
    parts.close()  # type: ignore[attr-defined]
    assert not leader.on_its_way


def test_the_end_is_that_of_the_call() -> None:
    leader = Leader([batch(0), batch(2)], log_end=4)
    assert len(read(fetcher(leader).fetch_to_end("t", 0, 0))) == 2


def test_one_record_is_found_or_an_error_at_once() -> None:
    found = fetcher(Leader([batch(4, 3)]), limits=AT_ONCE, stall_seconds=0).records("t", 0, 5)
    assert [each.offset for each in found] == [5, 6]
    with pytest.raises(RefusedError, match="t-0 at offset 5"):        # compaction removed it
        fetcher(Leader([batch(6)]), limits=AT_ONCE, stall_seconds=0).records("t", 0, 5)


def test_limits_are_those_of_the_request() -> None:
    leader = Leader([batch(7)])
    read(fetcher(leader, committed=True, rack="a").fetch("t", 3, 7, 8))
    request, = leader.requests
    part = request.topics[0].partitions[0]
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level, request.rack_id) == (
        LIMITS.wait_ms, LIMITS.min_bytes, LIMITS.answer_bytes, 1, "a")
    assert (part.partition, part.fetch_offset, part.partition_max_bytes) == (3, 7, LIMITS.partition_bytes)
