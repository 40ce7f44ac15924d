"""Requests of simulated clients as the frames that compiled brokers read, and the answers read back from frames."""

from collections.abc import Callable
from functools import cache
from typing import Final

from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.headers import decode_response_header, encode_request_header
from kraft.protocol.message import Message
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.fetch_response import FetchResponse
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft.testing.brokers.clients import TIMEOUT_MS
from kraft.testing.brokers.log_view import decoded_batches, encoded_batch
from kraft.testing.brokers.messages import Call, Fetch, Fetched, FetchedPart, Produce, Produced

FETCH: Final = API_BY_KEY[FetchRequest.API_KEY]
PRODUCE: Final = API_BY_KEY[ProduceRequest.API_KEY]
FETCH_VERSION: Final = 17
PRODUCE_VERSION: Final = 13
SIZE_BYTES: Final = 4
BATCH_BYTES: Final = 110
"""More than a batch of a simulated producer has."""
ANSWER_BYTES: Final = 1 << 20

Decode = Callable[[bytes], object]
"""Decodes the frame of an answer, without its size, to a message for the client."""


def limit_of(batches: int) -> int:
    """Return the bytes of a Fetch that gets about so many batches: at least one, whatever its size."""
    return max(1, (batches - 1) * BATCH_BYTES)


def fetch_frame(fetch: Fetch, wait_ms: int, batches: int) -> tuple[bytes, Decode]:
    """Return the frame of a consumer's Fetch, and what reads its answer."""
    topics = [FetchTopic(topic_id=part.key[0], partitions=[FetchPartition(
        partition=part.key[1], current_leader_epoch=part.leader_epoch, fetch_offset=part.fetch_offset,
        partition_max_bytes=limit_of(batches))]) for part in fetch.parts]
    request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=ANSWER_BYTES, session_epoch=-1, topics=topics)
    return _framed(request, FETCH_VERSION), _fetched


def _fetched(frame: bytes) -> Fetched:
    _header, body = decode_response_header(frame, FETCH, FETCH_VERSION)
    return Fetched(tuple(
        FetchedPart((topic.topic_id, part.partition_index), part.error_code, part.high_watermark, part.log_start_offset,
                    tuple(decoded_batches(part.records or b"", None)))
        for topic in FetchResponse.decode(body, FETCH_VERSION).responses for part in topic.partitions))


def produce_frame(produce: Produce) -> tuple[bytes, Decode]:
    """Return the frame of a producer's batch, and what reads its answer."""
    records = encoded_batch(produce.producer, produce.producer_epoch, produce.sequence, produce.value, produce.records)
    request = ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[TopicProduceData(
        topic_id=produce.key[0], partition_data=[PartitionProduceData(index=produce.key[1], records=records)])])

    def produced(frame: bytes) -> Produced:
        _header, body = decode_response_header(frame, PRODUCE, PRODUCE_VERSION)
        [topic] = ProduceResponse.decode(body, PRODUCE_VERSION).responses
        [part] = topic.partition_responses
        return Produced(part.error_code, -1 if part.error_code else part.base_offset + produce.records)

    return _framed(request, PRODUCE_VERSION), produced


def call_of(request: Message, version: int) -> Call:
    """Return any request as a frame, with what reads its answer."""
    api = API_BY_KEY[request.API_KEY]

    def decode(frame: bytes) -> Message:
        _header, body = decode_response_header(frame, api, version)
        return api.response.decode(body, version)

    return Call(_framed(request, version), decode)


def _framed(request: Message, version: int) -> bytes:
    frame = _header(request.API_KEY, version) + request.encode(version)
    return len(frame).to_bytes(SIZE_BYTES, "big") + frame


@cache
def _header(api_key: int, version: int) -> bytes:
    """Header of all requests of an API: a connection of a client identifies them by their order."""
    return encode_request_header(API_BY_KEY[api_key], version, 0, "simulated")
