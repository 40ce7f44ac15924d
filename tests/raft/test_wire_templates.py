"""Fetches built from templates are byte for byte those of the codec; whatever fits no template goes through the
codec."""

from dataclasses import replace
from typing import Any

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchRequest as FetchMessage
from kraft.raft.messages import HIGH_WATERMARK_UNREPORTED, FetchRequest, FetchResponse
from kraft.raft.types import Endpoint, OffsetAndEpoch
from kraft.raft.wire import FETCH_CODEC, WrongPartitionError
from kraft.raft.wire_templates import FetchTemplates
from kraft_native.base.errors import ProtocolError
from kraft_native.batch.records import BatchBuilder
from tests.raft.world import CLUSTER, key

LATEST = 18
NUMBERS = (0, 1, 127, 128, 2**31 - 1)
REQUEST = FetchRequest(cluster_id=CLUSTER, replica=key(3), epoch=3, fetch_offset=7, last_fetched_epoch=2, max_bytes=100,
                       max_wait_ms=500, high_watermark=5, is_follower=True)
LEADER_FIELDS: dict[str, Any] = {"epoch": 4, "leader_id": 2, "leader_endpoints": (Endpoint("", "node2", 9093),)}
ANSWERED = FetchResponse(high_watermark=4, log_start_offset=1, **LEADER_FIELDS)


def batch(size: int) -> bytes:
    builder = BatchBuilder()
    builder.append(bytes(size))
    return builder.build(7, leader_epoch=3)


def encoded(request: FetchRequest, version: int = LATEST) -> bytes:
    return FETCH_CODEC.encode_request(request, version).encode(version)


REQUESTS = [
    *(replace(REQUEST, epoch=number, fetch_offset=number << 20, last_fetched_epoch=number, high_watermark=number)
      for number in NUMBERS),
    replace(REQUEST, is_follower=False), replace(REQUEST, cluster_id=None), replace(REQUEST, replica=key(1)),
    replace(REQUEST, max_bytes=1), replace(REQUEST, max_wait_ms=0),
    replace(REQUEST, high_watermark=HIGH_WATERMARK_UNREPORTED),
    REQUEST,
]


@pytest.mark.parametrize("version", [12, 16, 17, LATEST])
def test_requests_are_those_of_the_codec(version: int) -> None:
    ours, theirs = FetchTemplates(), FetchTemplates()
    for request in [twice for each in REQUESTS for twice in (each, each)]:
        body = ours.request_bytes(request, version)
        assert body == encoded(request, version)
        assert theirs.request_of(1, body, version) == FETCH_CODEC.decode_request(
            FetchMessage.decode(body, version), version)


def test_requests_that_change_in_numbers_only_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = FetchTemplates(), FetchTemplates()
    theirs.request_of(1, ours.request_bytes(REQUEST, LATEST), LATEST)
    monkeypatch.setattr(FetchMessage, "decode", None)
    monkeypatch.setattr(FetchMessage, "encode", None)
    later = replace(REQUEST, fetch_offset=1000, high_watermark=999)
    assert theirs.request_of(1, ours.request_bytes(later, LATEST), LATEST) == later


def test_each_byte_of_a_request_counts() -> None:
    """A body that differs from the previous one in any other place is decoded again, or refused as the codec refuses
    it."""
    theirs, body = FetchTemplates(), encoded(REQUEST)
    for at in range(len(body)):
        theirs.request_of(1, body, LATEST)
        changed = body[:at] + bytes([body[at] ^ 1]) + body[at + 1:]
        try:
            expected: object = FETCH_CODEC.decode_request(FetchMessage.decode(changed, LATEST), LATEST)
        except (ProtocolError, WrongPartitionError) as error:
            with pytest.raises(type(error)):
                theirs.request_of(1, changed, LATEST)
        else:
            assert theirs.request_of(1, changed, LATEST) == expected


def test_sources_do_not_share_a_template() -> None:
    theirs = FetchTemplates()
    for source in range(600):
        request = replace(REQUEST, replica=key(source % 3 + 1), fetch_offset=source)
        assert theirs.request_of(source % 7, encoded(request), LATEST) == request


RESPONSES = [
    ANSWERED, *(replace(ANSWERED, high_watermark=number, records=batch(size))
                for number, size in zip(NUMBERS, (0, 1, 60, 200, 20_000), strict=True)),
    replace(ANSWERED, not_follower=True), replace(ANSWERED, epoch=5), replace(ANSWERED, log_start_offset=9),
    replace(ANSWERED, leader_endpoints=()), replace(ANSWERED, diverging=OffsetAndEpoch(3, 1)),
    replace(ANSWERED, snapshot=OffsetAndEpoch(4, 1)),
    FetchResponse(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, **LEADER_FIELDS),
    FetchResponse(error=ErrorCode.INCONSISTENT_CLUSTER_ID), ANSWERED,
]


@pytest.mark.parametrize("version", [12, 16, 17, LATEST])
def test_responses_are_those_of_the_codec(version: int) -> None:
    ours, theirs = FetchTemplates(), FetchTemplates()
    for response in [again for each in RESPONSES for again in (each, replace(each), each)]:
        body = b"".join(ours.response_parts(response, version))
        assert body == FETCH_CODEC.encode_response(response, version).encode(version)
        assert theirs.response_of(memoryview(body), version) == FETCH_CODEC.decode_response(
            FETCH_CODEC.answer.decode(body, version))


def test_records_are_not_copied() -> None:
    """Records are copied neither into the parts of an answer nor out of one: they are the bytes read or received."""
    ours, theirs = FetchTemplates(), FetchTemplates()
    ours.response_parts(ANSWERED, LATEST)
    records = batch(20_000)
    parts = ours.response_parts(replace(ANSWERED, records=records), LATEST)
    assert any(part is records for part in parts)
    received = bytearray(b"".join(parts))
    theirs.response_of(memoryview(received), LATEST)
    answer = theirs.response_of(memoryview(received), LATEST)
    assert isinstance(answer, FetchResponse)
    assert isinstance(answer.records, memoryview)
    assert (answer.records.obj is received, answer.records == records) == (True, True)


def test_each_byte_of_a_response_counts() -> None:
    theirs = FetchTemplates()
    body = FETCH_CODEC.encode_response(replace(ANSWERED, records=batch(5)), LATEST).encode(LATEST)
    for at in range(len(body)):
        theirs.response_of(memoryview(body), LATEST)
        for changed in (body[:at] + bytes([body[at] ^ 1]) + body[at + 1:], body[:at]):
            try:
                expected = FETCH_CODEC.decode_response(FETCH_CODEC.answer.decode(changed, LATEST))
            except ProtocolError as error:
                with pytest.raises(type(error)):
                    theirs.response_of(memoryview(changed), LATEST)
            else:
                assert theirs.response_of(memoryview(changed), LATEST) == expected
