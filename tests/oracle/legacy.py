"""Message sets of formats v0 and v1 in the plainest Python, written and read. Imports no compiled module."""

from __future__ import annotations

import random
import struct
import zlib
from dataclasses import dataclass

from tests.oracle.batch import CODECS, compress, decompress

LOG_APPEND_TIME = 0x08
# Codecs of the formats; zstd came later.
OLD_CODECS = ("none", "gzip", "snappy", "lz4")
MASK = 0xFFFFFFFF


@dataclass(frozen=True)
class Message:
    """One record as a reader sees it. `timestamp_ms` is -1 in format v0."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int = -1


def sized(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def encode(message: Message, magic: int, attributes: int = 0) -> bytes:
    """Encode one message with a right CRC."""
    time = struct.pack(">q", message.timestamp_ms) if magic == 1 else b""
    checked = struct.pack(">bb", magic, attributes) + time + sized(message.key) + sized(message.value)
    return struct.pack(">qiI", message.offset, len(checked) + 4, zlib.crc32(checked)) + checked


def xxh32_short(data: bytes) -> int:
    """Compute the checksum of lz4 frames over fewer than 16 bytes."""
    h = (374761393 + len(data)) & MASK
    at = 0
    while len(data) - at >= 4:
        h = (h + int.from_bytes(data[at:at + 4], "little") * 3266489917) & MASK
        h = (((h << 17) | (h >> 15)) & MASK) * 668265263 & MASK
        at += 4
    for byte in data[at:]:
        h = (h + byte * 374761393) & MASK
        h = (((h << 11) | (h >> 21)) & MASK) * 2654435761 & MASK
    h = (h ^ (h >> 15)) * 2246822519 & MASK
    h = (h ^ (h >> 13)) * 3266489917 & MASK
    return h ^ (h >> 16)


def with_descriptor_checksum(frame: bytes, *, wrong: bool) -> bytes:
    """Return one of our lz4 frames with the right checksum of its descriptor, or with the wrong one of format v0.

    Kafka computed that one over the frame's magic number, too (KAFKA-3160).
    """
    checked = frame[:6] if wrong else frame[4:6]
    return frame[:6] + bytes([(xxh32_short(checked) >> 8) & 0xFF]) + frame[7:]


def message_set(messages: list[Message], magic: int, codec: str = "none", *, log_append_time: bool = False) -> bytes:
    """Encode the messages one by one, or compressed in one."""
    kind = LOG_APPEND_TIME if log_append_time else 0
    if codec == "none":
        return b"".join(encode(message, magic, kind) for message in messages)
    first, last = messages[0].offset, messages[-1].offset
    inside = b"".join(
        encode(Message(message.offset - (first if magic == 1 else 0), message.key, message.value,
                       message.timestamp_ms), magic)
        for message in messages)
    packed = compress(codec, inside)
    if codec == "lz4":
        packed = with_descriptor_checksum(packed, wrong=magic == 0)
    time = -1 if magic == 0 else max(message.timestamp_ms for message in messages)
    return encode(Message(last, None, packed, time), magic, kind | CODECS.index(codec))


@dataclass(frozen=True)
class Outer:
    """One message of a log: plain, or with others compressed in it."""

    position: int
    size: int
    magic: int
    codec: str
    log_append_time: bool
    max_timestamp_ms: int
    messages: list[Message]


def decode(data: bytes) -> list[Outer]:
    """Decode every message of sound bytes."""
    found = []
    position = 0
    while position < len(data):
        offset, length, crc, magic, attributes = struct.unpack_from(">qiIbb", data, position)
        body = data[position + 18:position + 12 + length]
        assert crc == zlib.crc32(data[position + 16:position + 12 + length]), position
        time = -1
        if magic == 1:
            (time,), body = struct.unpack_from(">q", body), body[8:]
        key, body = field(body)
        value, body = field(body)
        assert body == b""
        codec = CODECS[attributes & 7]
        messages = [Message(offset, key, value, time)]
        if codec != "none":
            assert value is not None
            if codec == "lz4":
                value = with_descriptor_checksum(value, wrong=False)
            inner = [outer.messages[0] for outer in decode(decompress(codec, value))]
            shift = offset - inner[-1].offset if magic == 1 else 0
            late = bool(attributes & LOG_APPEND_TIME)
            messages = [Message(each.offset + shift, each.key, each.value, time if late else each.timestamp_ms)
                        for each in inner]
        found.append(Outer(position, 12 + length, magic, codec, magic == 1 and bool(attributes & LOG_APPEND_TIME), time,
                           messages))
        position += 12 + length
    return found


def field(body: bytes) -> tuple[bytes | None, bytes]:
    (size,) = struct.unpack_from(">i", body)
    return (None, body[4:]) if size < 0 else (body[4:4 + size], body[4 + size:])


def sample(source: random.Random, first_offset: int, sets: int, magics: tuple[int, ...] = (0, 1),
           codecs: tuple[str, ...] = OLD_CODECS) -> bytes:
    """Build a log of `sets` message sets of every kind, without gaps."""
    data = b""
    offset = first_offset
    for _ in range(sets):
        magic = source.choice(magics)
        late = magic == 1 and source.random() < 0.3
        time = 1_400_000_000_000 + offset * 1000
        count = source.choice((1, 1, 2, 5, 40))
        messages = [
            Message(offset + number, source.choice((None, b"", b"key %d" % source.randrange(20))),
                    source.choice((None, b"", b"value %d " % number * source.randrange(1, 20), source.randbytes(50))),
                    -1 if magic == 0 else time if late else time + source.randrange(-500, 500))
            for number in range(count)]
        data += message_set(messages, magic, source.choice(codecs), log_append_time=late)
        offset += count
    return data
