"""Validation by a leader: our node and Kafka's answer the same to the same crafted batches.

Both name the same records as those at fault. `DIFFERENCES` lists every intended difference and its reason.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from kraft.client import Cluster
from kraft.client.producer import produce_request
from kraft.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse
from tests.native.serving import produced, serving
from tests.oracle.batch import CODECS, CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL, assemble, compress
from tests.oracle.batch import encode_varint as varint
from tests.peer.kafka import KafkaNode, kafka_node, require_kafka

pytestmark = pytest.mark.peer

VERSION: Final = 9
"""Version of Produce that names the records at fault."""
NOW_MS: Final = time.time_ns() // 1_000_000
HOUR_MS: Final = 3_600_000
NONE, CORRUPT, TOO_LARGE, INVALID_TIMESTAMP, NO_TRANSACTION, INVALID_RECORD = 0, 2, 10, 32, 48, 87
KAFKA_FAILED: Final = -1
"""UNKNOWN_SERVER_ERROR: an exception that Kafka's code did not expect."""

TOPICS: Final[dict[str, dict[str, str]]] = {
    "plain": {},
    "compacted": {"cleanup_policy": "compact"},
    "bounded": {"message_timestamp_before_max_ms": str(HOUR_MS), "message_timestamp_after_max_ms": str(HOUR_MS)},
    "late": {"message_timestamp_type": "LogAppendTime"},
    "small": {"max_message_bytes": "200"},
    "small-unpacked": {"max_message_bytes": "200", "compression_type": "uncompressed"},
    "repacked": {"compression_type": "gzip"},
}


class Answer(NamedTuple):
    """An error code, and the places in the batch of the records that are at fault."""

    code: int
    records: tuple[int, ...] = ()


class Case(NamedTuple):
    """A batch to produce, and its topic."""

    data: bytes
    topic: str = "plain"
    transactional_id: str | None = None


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(delta: int = 0, *, attributes: int = 0, time_delta: int = 0, key: bytes = sized(b"k"),
           value: bytes = sized(b"value"), headers: bytes = varint(0), length: int | None = None) -> bytes:
    """One record; `key`, `value` and `headers` are in wire format, lengths included."""
    body = bytes([attributes]) + varint(time_delta) + varint(delta) + key + value + headers
    return varint(len(body) if length is None else length) + body


def batch(records: Iterable[bytes], codec: str = "none", *, body: bytes | None = None, attributes: int = 0,
          count: int | None = None, last_delta: int | None = None, base_ms: int = NOW_MS, max_ms: int = NOW_MS,
          **fields: int) -> bytes:
    """A batch of these records, or around `body`."""
    records = list(records)
    count = len(records) if count is None else count
    return assemble(compress(codec, b"".join(records)) if body is None else body, attributes | CODECS.index(codec),
                    count - 1 if last_delta is None else last_delta, base_ms, max_ms, count, **fields)


def numbered(*deltas: int) -> list[bytes]:
    return [record(delta) for delta in deltas]


THREE: Final = numbered(0, 1, 2)


def changed(position: int, data: bytes) -> bytes:
    """A sound batch with these bytes written into it and its checksum unchanged."""
    whole = bytearray(batch(THREE))
    whole[position:position + len(data)] = data
    return bytes(whole)


def of_batches() -> Iterator[tuple[str, Case]]:
    """Faults of a batch that are found before its records are read."""
    sound = batch(THREE)
    for name, data in {
        "base offset 5": batch(THREE, base_offset=5),
        "wrong checksum": changed(30, b"\x55"),
        "magic 1": changed(16, b"\x01"),
        "magic 3": changed(16, b"\x03"),
        "length 13": changed(8, struct.pack(">i", 13)),
        "length -1": changed(8, struct.pack(">i", -1)),
        "cut off": sound[:-3],
        "nothing": b"",
        "two batches": sound + sound,
        "bytes after the batch": sound + b"\0\0\0",
        "leader epoch 7": batch(THREE, leader_epoch=7),
        "attribute 7": batch(THREE, attributes=0x80),
        "attribute 14": batch(THREE, attributes=0x4000),
        "attribute 15": batch(THREE, attributes=-0x8000),
        "control batch": batch(THREE, attributes=CONTROL),
        "count -1": batch(THREE, count=-1, last_delta=2),
        "last delta -1": batch(THREE, last_delta=-1),
        "last delta overflows": batch(THREE, count=-2**31, last_delta=2**31 - 1),
        "producer without sequence": batch(THREE, producer_id=7, producer_epoch=0),
        "producer with sequence -2": batch(THREE, producer_id=7, producer_epoch=0, base_sequence=-2),
        "producer without epoch": batch(THREE, producer_id=8, base_sequence=0),
        "producer without epoch and sequence": batch(THREE, producer_id=9),
        "producer with the last sequence": batch(THREE, producer_id=10, producer_epoch=0, base_sequence=2**31 - 1),
        "producer begins at 5": batch(THREE, producer_id=11, producer_epoch=0, base_sequence=5),
        "producer -2": batch(THREE, producer_id=-2, producer_epoch=0, base_sequence=0),
        "no producer, epoch and sequence": batch(THREE, producer_epoch=3, base_sequence=4),
        "transactional, no id": batch(THREE, attributes=TRANSACTIONAL, producer_id=12, producer_epoch=0,
                                      base_sequence=0),
        "transactional, no id, no producer": batch(THREE, attributes=TRANSACTIONAL),
    }.items():
        yield name, Case(data)
    for number in (5, 6, 7):
        yield f"codec {number}", Case(batch(THREE, attributes=number))
    yield "transactional, no producer", Case(batch(THREE, attributes=TRANSACTIONAL), transactional_id="x")


def of_records(codec: str) -> Iterator[tuple[str, Case]]:
    """Faults in the numbers of records, or inside the second of two."""
    for name, data in {
        "sound": batch(THREE, codec),
        "first delta 1": batch(numbered(1, 2, 3), codec),
        "deltas out of order": batch(numbered(0, 2, 1), codec),
        "delta repeated": batch(numbered(0, 0, 0), codec),
        "delta negative": batch(numbered(0, -1), codec),
        "last delta too large": batch(THREE, codec, last_delta=3),
        "count too small": batch(THREE, codec, count=2),
        "count too large": batch(THREE, codec, count=4),
        "count zero": batch([], codec, count=0, last_delta=0),
        "count without records": batch([], codec, count=1),
        "bytes after the records": batch([*THREE, b"\0\0\0"], codec, count=3),
        "delete horizon": batch(THREE, codec, attributes=DELETE_HORIZON),
        "control": batch(THREE, codec, attributes=CONTROL),
        "two batches": batch(THREE, codec) * 2,
    }.items():
        yield name, Case(data)
    for name, second in {
        "null key and value": record(1, key=sized(None), value=sized(None)),
        "record attributes": record(1, attributes=0x7F),
        "key length -2": record(1, key=varint(-2)),
        "value length -2": record(1, value=varint(-2)),
        "key beyond the record": record(1, key=varint(100) + b"k"),
        "value beyond the record": record(1, value=varint(100) + b"value"),
        "key length of six bytes": record(1, key=b"\xff\xff\xff\xff\xff\x01"),
        "header": record(1, headers=varint(1) + sized(b"h") + sized(b"x")),
        "header without value": record(1, headers=varint(1) + sized(b"h") + sized(None)),
        "header key no text": record(1, headers=varint(1) + sized(b"\xff") + sized(b"x")),
        "header without key": record(1, headers=varint(1) + sized(None) + sized(b"x")),
        "header key length -2": record(1, headers=varint(1) + varint(-2) + sized(b"x")),
        "header value length -2": record(1, headers=varint(1) + sized(b"h") + varint(-2)),
        "header value beyond the record": record(1, headers=varint(1) + sized(b"h") + varint(100)),
        "header count -1": record(1, headers=varint(-1)),
        "header count too large": record(1, headers=varint(2) + sized(b"h") + sized(b"x")),
        "header count enormous": record(1, headers=varint(2**31 - 1)),
        "byte after the headers": record(1, headers=varint(0) + b"\0"),
        "record length too small": record(1, length=11),
        "record length too large": record(1, length=13),
        "record beyond the batch": record(1, length=112),
        "record length 0": record(1, length=0),
        "record length -1": record(1, length=-1),
    }.items():
        yield name, Case(batch([record(), second], codec))


def of_streams(codec: str) -> Iterator[tuple[str, Case]]:
    """Faults in compressed bytes."""
    whole = compress(codec, b"".join(THREE))
    for name, body in {
        "no stream": b"",
        "no such stream": b"\x01rubbish that is no stream",
        "zeros": bytes(100),
        "half a stream": whole[:len(whole) // 2],
        "stream without its last byte": whole[:-1],
        "bytes after the stream": whole + b"junk behind it all",
        "two streams": compress(codec, THREE[0]) + compress(codec, b"".join(THREE[1:])),
        "a batch inside": compress(codec, batch(THREE, codec)),
    }.items():
        yield name, Case(batch(THREE, codec, body=body))


def of_topics(codec: str) -> Iterator[tuple[str, Case]]:
    """Batches that only some topics refuse."""
    no_key = sized(None)
    keys = [record(0, key=no_key), record(1), record(2, key=sized(b"")), record(3, key=no_key)]
    times = [record(0), record(1, time_delta=2 * HOUR_MS), record(2), record(3, time_delta=-2 * HOUR_MS)]
    yield "compacted: some keys missing", Case(batch(keys, codec), "compacted")
    yield "compacted: key missing, time wrong", Case(batch(
        [record(0, key=no_key, time_delta=2 * HOUR_MS), record(1)], codec), "compacted")
    yield "compacted: key missing, another's time wrong", Case(batch(
        [record(0, key=no_key), record(1, time_delta=2 * HOUR_MS)], codec), "compacted")
    for topic in ("plain", "bounded", "late"):
        for name, case in {
            "times": batch(times, codec),
            "no time": batch(numbered(0, 1), codec, base_ms=-1, max_ms=-1),
            "time -5": batch(numbered(0, 1), codec, base_ms=-5, max_ms=-5),
            "time overflows": batch([record(0), record(1, time_delta=1)], codec, base_ms=2**63 - 1, max_ms=2**63 - 1),
            "largest time wrong": batch(THREE, codec, max_ms=NOW_MS + 5 * HOUR_MS),
            "claims LogAppendTime": batch(THREE, codec, attributes=LOG_APPEND_TIME),
            "claims a LogAppendTime too far": batch(THREE, codec, attributes=LOG_APPEND_TIME,
                                                    max_ms=NOW_MS + 5 * HOUR_MS),
            "claims no LogAppendTime": batch(THREE, codec, attributes=LOG_APPEND_TIME, max_ms=-1),
        }.items():
            yield f"{topic}: {name}", Case(case, topic)
    large = [record(0, value=sized(b"v" * 400))]
    yield "small: too large", Case(batch(large, codec), "small")
    yield "small: too large and damaged", Case(batch(large, codec, crc=5), "small")
    yield "small: becomes too large", Case(batch(large, codec), "small-unpacked")


def of_repacking(codec: str) -> Iterator[tuple[str, Case]]:
    """A topic with a codec of its own: the leader decodes each record."""
    for name, case in of_records(codec):
        yield f"repacked: {name}", case._replace(topic="repacked")


CASES: Final[dict[str, Case]] = dict(of_batches())
for each in CODECS:
    CASES.update({f"{each}: {name}": case for make in (of_records, of_topics) for name, case in make(each)})
for each in CODECS[1:]:
    CASES.update({f"{each}: {name}": case for name, case in of_streams(each)})
for each in ("none", "lz4"):
    CASES.update({f"{each}: {name}": case for name, case in of_repacking(each)})


class Difference(NamedTuple):
    """Cases in which the codes differ, for some codecs ("": for none in particular)."""

    why: str
    ours: int
    kafka: int
    codecs: tuple[str, ...]
    cases: tuple[str, ...]


COMPRESSED: Final = CODECS[1:]
DIFFERENCES: Final = (
    Difference("there is no such codec", CORRUPT, KAFKA_FAILED, ("",), ("codec 5", "codec 6", "codec 7")),
    Difference("a payload that cannot be decompressed is damage", CORRUPT, KAFKA_FAILED, COMPRESSED, (
        "no such stream", "zeros", "half a stream", "stream without its last byte")),
    Difference("likewise", CORRUPT, KAFKA_FAILED, ("snappy", "zstd"), ("bytes after the stream",)),
    Difference("likewise", CORRUPT, KAFKA_FAILED, ("gzip", "snappy", "lz4"), ("no stream",)),
    Difference("likewise; Kafka's library takes no bytes for no records", CORRUPT, INVALID_RECORD, ("zstd",),
               ("no stream",)),
    Difference("Kafka means to number such records again, and misses what it has not read of them", NONE, KAFKA_FAILED,
               COMPRESSED, ("first delta 1", "deltas out of order", "delta repeated", "delta negative")),
    Difference("Kafka takes any negative length for null", INVALID_RECORD, NONE,
               (*CODECS, "none: repacked", "lz4: repacked"), (
                   "key length -2", "value length -2", "header value length -2")),
    Difference("Kafka does not check them where it only skips through records", INVALID_RECORD, NONE, COMPRESSED, (
        "record length too small", "record length too large", "record beyond the batch", "record length 0",
        "record length -1")),
    Difference("without a producer it belongs to no transaction", NO_TRANSACTION, NONE, ("",), (
        "transactional, no producer",)),
)
BY_CASE: Final = {f"{codec}: {case}".removeprefix(": "): (Answer(each.ours), Answer(each.kafka))
                  for each in DIFFERENCES for codec in each.codecs for case in each.cases}


def answer_of(response: PartitionProduceResponse) -> Answer:
    return Answer(response.error_code, tuple(each.batch_index for each in response.record_errors))


def our_answer(directory: Path, case: Case) -> Answer:
    settings = {name: int(value) if value.isdecimal() else value for name, value in TOPICS[case.topic].items()}
    with serving(directory) as node:
        node.partition(case.topic, **settings)
        reply = node.produce(case.data, version=VERSION, topic=case.topic, transactional_id=case.transactional_id)
        return answer_of(produced(reply))


def kafka_answer(cluster: Cluster, case: Case) -> Answer:
    request = produce_request({(case.topic, 0): case.data}, -1, 10_000, case.transactional_id)
    answered = cluster.any().send(request, ProduceResponse, version=VERSION)
    return answer_of(answered.responses[0].partition_responses[0])


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    require_kafka()
    node: KafkaNode
    with kafka_node(tmp_path_factory.mktemp("validation")) as node:
        node.start()
        for topic, settings in TOPICS.items():
            node.create_topic(topic, **settings)
        with Cluster(node.bootstrap) as cluster:
            cluster.any()                  # opened here, so that no test leaks it
            yield cluster


@pytest.mark.parametrize("name", CASES)
def test_both_answer_the_same(kafka: Cluster, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    ours, theirs = our_answer(tmp_path, case), kafka_answer(kafka, case)
    if name in BY_CASE:
        assert (ours, theirs) == BY_CASE[name]
    else:
        assert ours == theirs


def test_every_difference_is_that_of_a_case() -> None:
    assert set(BY_CASE) <= set(CASES)
