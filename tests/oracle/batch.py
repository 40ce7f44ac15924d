"""Record batch v2 in the slowest, most obvious Python: the standard library, one byte at a time, no cleverness.

The compiled modules are tested against this model. It imports none of them.
"""

from __future__ import annotations

import gzip
import struct
from dataclasses import dataclass, field

from kraft.protocol.error_codes import ErrorCode

HEADER = struct.Struct(">qiibIhiqqqhii")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40


class Malformed(Exception):
    """The bytes are malformed."""


@dataclass
class OracleRecord:
    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int = 0
    headers: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    offset_delta: int = -1  # -1: one more than the record before


@dataclass
class OracleBatch:
    base_offset: int
    leader_epoch: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    size_in_bytes: int
    body: bytes
    records: list[OracleRecord]


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def crc_entry(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    return byte


CRC_TABLE = [crc_entry(byte) for byte in range(256)]


# --- varints


def encode_varint(value: int) -> bytes:
    value = value * 2 if value >= 0 else -value * 2 - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        if count < 0 or self.at + count > len(self.data):
            raise Malformed(f"{count} bytes at {self.at} of {len(self.data)}")
        self.at += count
        return self.data[self.at - count:self.at]

    def varint(self, bits: int = 32) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >= 1 << bits:
                    raise Malformed(f"varint of more than {bits} bits")
                return value // 2 if value % 2 == 0 else -(value // 2) - 1
            if shift + 7 >= bits:
                raise Malformed(f"varint of more than {bits} bits")
        raise Malformed("varint too long")

    def sized(self, nullable: bool = True) -> bytes | None:
        length = self.varint()
        if length == -1 and nullable:
            return None
        return self.take(length)


# --- records


def encode_record(record: OracleRecord, offset_delta: int, base_timestamp: int) -> bytes:
    def sized(data: bytes | None) -> bytes:
        return encode_varint(-1) if data is None else encode_varint(len(data)) + data

    delta = record.timestamp_ms - base_timestamp
    delta = (delta + 2**63) % 2**64 - 2**63  # as Java subtracts
    body = b"\0" + encode_varint(delta) + encode_varint(offset_delta) + sized(record.key) + sized(record.value)
    body += encode_varint(len(record.headers))
    for key, value in record.headers:
        body += sized(key) + sized(value)
    return encode_varint(len(body)) + body


def decode_record(reader: Reader, base_timestamp: int) -> OracleRecord:
    length = reader.varint()
    body = Reader(reader.take(length))
    body.take(1)
    delta = body.varint(64)
    timestamp = (base_timestamp + delta + 2**63) % 2**64 - 2**63
    offset_delta = body.varint()
    key = body.sized()
    value = body.sized()
    count = body.varint()
    if count < 0:
        raise Malformed(f"{count} headers")
    headers = []
    for _ in range(count):
        header_key = body.sized(nullable=False)
        assert header_key is not None
        headers.append((header_key, body.sized()))
    if body.at != len(body.data):
        raise Malformed("bytes left in the record")
    return OracleRecord(value, key, timestamp, headers, offset_delta)


# --- batches


def encode(
    records: list[OracleRecord],
    codec: str = "none",
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    attributes: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    log_append_time: int | None = None,
    compressed: bytes | None = None,
    max_timestamp: int | None = None,
) -> bytes:
    """Encode a batch. `compressed` replaces the body, for codecs that the caller compresses itself; `max_timestamp`
    replaces that of the records."""
    base_timestamp = records[0].timestamp_ms if records else -1
    body = b""
    delta = -1
    for record in records:
        delta = record.offset_delta if record.offset_delta >= 0 else delta + 1
        body += encode_record(record, delta, base_timestamp)
    if max_timestamp is None:
        max_timestamp = max((record.timestamp_ms for record in records), default=-1)
    if log_append_time is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp = log_append_time
    attributes |= CODECS.index(codec)
    body = compress(codec, body) if compressed is None else compressed
    return assemble(body, attributes, max(delta, 0), base_timestamp, max_timestamp, len(records),
                    base_offset=base_offset, leader_epoch=leader_epoch, producer_id=producer_id,
                    producer_epoch=producer_epoch, base_sequence=base_sequence)


def assemble(
    body: bytes,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    record_count: int,
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    magic: int = 2,
    crc: int | None = None,
) -> bytes:
    """Join header and body with the right CRC, even if the fields make no sense."""
    checked = struct.pack(">hiqqqhii", attributes, last_offset_delta, base_timestamp, max_timestamp, producer_id,
                          producer_epoch, base_sequence, record_count) + body
    return struct.pack(">qiibI", base_offset, len(checked) + 9, leader_epoch, magic,
                       crc32c(checked) if crc is None else crc) + checked


def decode(data: bytes, *, check_crc: bool = True) -> OracleBatch:
    """Decode the first batch of `data`. Raises Malformed when it is not whole and sound."""
    if len(data) < HEADER.size:
        raise Malformed("cut off in the header")
    (base_offset, length, leader_epoch, magic, crc, attributes, last_offset_delta, base_timestamp, max_timestamp,
     producer_id, producer_epoch, base_sequence, record_count) = HEADER.unpack_from(data)
    size = length + 12
    if magic != 2 or size < HEADER.size or len(data) < size:
        raise Malformed(f"magic {magic}, size {size} of {len(data)}")
    if base_offset < 0 or last_offset_delta < 0 or not 0 <= record_count <= last_offset_delta + 1:
        raise Malformed(f"{record_count} records in {base_offset} + {last_offset_delta}")
    if check_crc and crc32c(data[21:size]) != crc:
        raise Malformed("crc")
    body = data[HEADER.size:size]
    reader = Reader(decompress(CODECS[attributes & 7], body) if record_count else b"")
    records = [decode_record(reader, base_timestamp) for _ in range(record_count)]
    if reader.at != len(reader.data):
        raise Malformed("bytes after the last record")
    if attributes & LOG_APPEND_TIME:
        for record in records:
            record.timestamp_ms = max_timestamp
    return OracleBatch(base_offset, leader_epoch, crc, attributes, last_offset_delta, base_timestamp, max_timestamp,
                       producer_id, producer_epoch, base_sequence, record_count, size, body, records)


# --- codecs: the libraries' plainest calls


def compress(codec: str, data: bytes) -> bytes:
    if codec == "none":
        return data
    if codec == "gzip":
        return gzip.compress(data)
    if codec == "snappy":
        import cramjam

        framed = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
        for at in range(0, len(data), 32768):
            block = bytes(cramjam.snappy.compress_raw(data[at:at + 32768]))
            framed += struct.pack(">i", len(block)) + block
        return framed
    if codec == "lz4":
        import lz4.frame

        return lz4.frame.compress(data, block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX64KB, store_size=False)
    import zstandard

    return zstandard.ZstdCompressor(write_content_size=False).compress(data)


def decompress(codec: str, data: bytes) -> bytes:
    if codec == "none":
        return data
    if codec == "gzip":
        return gzip.decompress(data)
    if codec == "snappy":
        import cramjam

        if not data.startswith(b"\x82SNAPPY\0"):
            return bytes(cramjam.snappy.decompress_raw(data))
        reader = Reader(data)
        reader.take(16)
        plain = b""
        while reader.at < len(data):
            length = struct.unpack(">i", reader.take(4))[0]
            plain += bytes(cramjam.snappy.decompress_raw(reader.take(length)))
        return plain
    if codec == "lz4":
        import lz4.frame

        return lz4.frame.decompress(data)
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj(read_across_frames=True).decompress(data)


# --- a leader's processing of a producer's batch


class Refused(Exception):
    def __init__(self, code: int, records: list[int] | None = None) -> None:
        super().__init__(f"code {code}, records {records}")
        self.code = code
        self.records = records or []


@dataclass
class Topic:
    now: int
    late: bool = False  # message.timestamp.type=LogAppendTime
    before: int = 2**63 - 1
    after: int = 3_600_000
    bytes_max: int = 1_048_588
    codec: str = "producer"
    compacted: bool = False


def next_size(data: bytes) -> int:
    """Return the size of the batch at the front in bytes; 0 when none is whole."""
    if len(data) < 12:
        return 0
    length = int.from_bytes(data[8:12], "big", signed=True)
    if length < 14:
        raise Refused(ErrorCode.CORRUPT_MESSAGE)
    if len(data) < 17:
        return 0
    if data[16] > 2:
        raise Refused(ErrorCode.CORRUPT_MESSAGE)
    return length + 12 if len(data) >= length + 12 else 0


def validate(data: bytes, topic: Topic) -> tuple[bytes, list[OracleRecord]]:
    """Return the batch as a leader stores it (offset and epoch still the producer's), and its records. Raises
    Refused."""
    size = next_size(data)
    if size == 0 or data[16] != 2 or next_size(data[size:]) != 0:
        raise Refused(ErrorCode.INVALID_RECORD)
    if size < HEADER.size:
        raise Refused(ErrorCode.CORRUPT_MESSAGE)
    data = data[:size]
    (base_offset, _, _, _, crc, attributes, last_offset_delta, base_timestamp, max_timestamp, producer_id,
     producer_epoch, base_sequence, count) = HEADER.unpack_from(data)
    attributes &= 0xFFFF
    if base_offset != 0:
        raise Refused(ErrorCode.INVALID_RECORD)
    if size > topic.bytes_max:
        raise Refused(ErrorCode.MESSAGE_TOO_LARGE)
    if crc32c(data[21:]) != crc or attributes & 7 > 4:
        raise Refused(ErrorCode.CORRUPT_MESSAGE)
    if count < 1 or count != last_offset_delta + 1 or attributes & CONTROL:
        raise Refused(ErrorCode.INVALID_RECORD)
    if producer_id >= 0 and base_sequence < 0:
        raise Refused(ErrorCode.INVALID_RECORD)
    source = CODECS[attributes & 7]
    records = read_all(source, data[HEADER.size:], count, base_timestamp)
    claimed = bool(attributes & LOG_APPEND_TIME)
    if claimed:
        for record in records:
            record.timestamp_ms = max_timestamp
    check_records(records, claimed, topic)
    highest = max(-1, *(record.timestamp_ms for record in records))
    late = {"log_append_time": topic.now} if topic.late else {}
    target = source if topic.codec == "producer" else topic.codec
    numbered = [record.offset_delta for record in records] == list(range(count))
    if target != source or (source != "none" and not numbered):
        for record in records:
            record.offset_delta = -1
        again = encode(records, target, attributes=attributes & TRANSACTIONAL, producer_id=producer_id,
                       producer_epoch=producer_epoch, base_sequence=base_sequence, max_timestamp=highest, **late)
        if len(again) > topic.bytes_max:
            raise Refused(ErrorCode.MESSAGE_TOO_LARGE)
        return again, records
    if claimed != topic.late or max_timestamp != (topic.now if topic.late else highest):
        attributes = attributes & ~LOG_APPEND_TIME | (LOG_APPEND_TIME if topic.late else 0)
        signed = attributes - 65536 if attributes >= 32768 else attributes
        fixed = assemble(data[HEADER.size:], signed, last_offset_delta, base_timestamp,
                         topic.now if topic.late else highest, count, producer_id=producer_id,
                         producer_epoch=producer_epoch, base_sequence=base_sequence)
        return data[:16] + fixed[16:], records
    return data, records


def read_all(codec: str, body: bytes, count: int, base_timestamp: int) -> list[OracleRecord]:
    try:
        plain = decompress(codec, body)
    except Exception as error:
        raise Refused(ErrorCode.CORRUPT_MESSAGE) from error
    reader = Reader(plain)
    try:
        records = [decode_record(reader, base_timestamp) for _ in range(count)]
    except Malformed:
        raise Refused(ErrorCode.INVALID_RECORD) from None
    if reader.at != len(plain):
        raise Refused(ErrorCode.INVALID_RECORD)
    return records


def check_records(records: list[OracleRecord], claimed: bool, topic: Topic) -> None:
    wrong: list[int] = []
    code = ErrorCode.INVALID_RECORD
    for index, record in enumerate(records):
        if topic.compacted and record.key is None:
            wrong.append(index)
        elif not topic.late and record.timestamp_ms != -1:
            if not topic.now - topic.before <= record.timestamp_ms <= topic.now + topic.after:
                wrong.append(index)
                code = ErrorCode.INVALID_TIMESTAMP
        elif claimed:
            wrong.append(index)
            code = ErrorCode.INVALID_TIMESTAMP
    if wrong:
        raise Refused(code, wrong)
