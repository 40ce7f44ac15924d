"""What a leader accepts and refuses: our validation and Kafka's answer the same code to the same crafted batches."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft_native import crc
from kraft_native.errors import KraftError
from kraft_native.records import BatchBuilder
from kraft_native.validate import validate
from tests.peer.kafka import KafkaNode, kafka_node, require_kafka

pytestmark = pytest.mark.peer

NOW_MS = 1_700_000_000_000
HEADER_BYTES = 61
CRC_AT, CRC_FROM = 17, 21
LAST_OFFSET_DELTA_AT, COUNT_AT = 23, 57
NO_ERROR = 0


def varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def record(offset_delta: int, value: bytes = b"value", timestamp_delta: int = 0) -> bytes:
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta) + varint(-1) + varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


def sealed(batch: bytearray) -> bytes:
    """With the length and the checksum that belong to the bytes."""
    batch[8:12] = struct.pack(">i", len(batch) - 12)
    batch[CRC_AT:CRC_FROM] = struct.pack(">I", crc.checksum(bytes(batch[CRC_FROM:])))
    return bytes(batch)


def crafted(deltas: list[int], *, count: int | None = None, last_delta: int | None = None, extra: bytes = b"") -> bytes:
    """An uncompressed batch whose records carry these offset deltas."""
    builder = BatchBuilder()
    builder.append(b"value", timestamp_ms=NOW_MS)
    header = bytearray(builder.build()[:HEADER_BYTES])
    header[LAST_OFFSET_DELTA_AT:LAST_OFFSET_DELTA_AT + 4] = struct.pack(
        ">i", len(deltas) - 1 if last_delta is None else last_delta)
    header[COUNT_AT:COUNT_AT + 4] = struct.pack(">i", len(deltas) if count is None else count)
    return sealed(header + b"".join(map(record, deltas)) + extra)


def plain() -> bytes:
    return crafted([0, 1, 2])


def changed(position: int, data: bytes, *, seal: bool = True) -> bytes:
    batch = bytearray(plain())
    batch[position:position + len(data)] = data
    return sealed(batch) if seal else bytes(batch)


CASES: dict[str, bytes] = {
    "sound": plain(),
    "first delta 1": crafted([1, 2, 3]),
    "deltas out of order": crafted([0, 2, 1]),
    "delta repeated": crafted([0, 0, 0]),
    "last delta too large": crafted([0, 1, 2], last_delta=3),
    "count too small": crafted([0, 1, 2], count=2),
    "count too large": crafted([0, 1, 2], count=4, last_delta=3),
    "count zero": crafted([], count=0, last_delta=0),
    "bytes after the records": crafted([0, 1, 2], extra=b"\0\0\0"),
    "base offset 5": changed(0, struct.pack(">q", 5)),
    "wrong checksum": changed(30, b"\x55", seal=False),
    "magic 1": changed(16, b"\x01", seal=False),
    "magic 3": changed(16, b"\x03", seal=False),
    "control batch": changed(21, struct.pack(">h", 0x20)),
    "producer id without sequence": changed(43, struct.pack(">qhi", 7, 0, -1)),
    "cut off": plain()[:-3],
    "two batches": plain() + plain(),
}


def our_answer(batch: bytes) -> int:
    try:
        validate(batch, now_ms=NOW_MS, timestamp_after_max_ms=2**62)
    except KraftError as error:
        return error.code
    return NO_ERROR


def kafka_answer(port: int, batch: bytes) -> int:
    """The error code of a Produce (version 3) of these bytes to partition 0 of topic t."""
    body = struct.pack(">hhi", -1, -1, 10_000) + struct.pack(">i", 1) + struct.pack(">h", 1) + b"t"
    body += struct.pack(">iii", 1, 0, len(batch)) + batch
    request = struct.pack(">hhi", 0, 3, 1) + struct.pack(">h", 1) + b"x" + body
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
        answer = connection.recv(size, socket.MSG_WAITALL)
    # correlation id, topic count, name, partition count, partition index, error code
    return int(struct.unpack_from(">h", answer, 4 + 4 + 3 + 4 + 4)[0])


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNode]:
    require_kafka()
    home: Path = tmp_path_factory.mktemp("validation")
    with kafka_node(home) as started:
        started.start()
        started.create_topic("t")
        yield started


@pytest.mark.parametrize("case", CASES)
def test_both_answer_the_same(node: KafkaNode, case: str) -> None:
    assert our_answer(CASES[case]) == kafka_answer(node.port, CASES[case])
