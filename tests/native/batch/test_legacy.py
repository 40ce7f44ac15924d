"""Messages of formats v0 and v1 as batches and records, against the plain reader in `tests/oracle/legacy.py`."""

import random
import struct
import zlib

import pyarrow as pa
import pytest

from kraft_native.base.errors import CorruptRecordError, MessageTooLargeError
from kraft_native.batch.batch import first_batch, walk
from kraft_native.batch.records import records
from kraft_native.columns.reader import read_columns
from tests.oracle.batch import CODECS
from tests.oracle.legacy import (
    OLD_CODECS,
    Message,
    decode,
    encode,
    message_set,
    sample,
    with_descriptor_checksum,
)

THREE = [Message(7, b"a", b"first", 1_000), Message(8, None, b"second" * 50, 3_000), Message(9, b"c", None, 2_000)]


def wrapper(inside: bytes, offset: int, magic: int, codec: str = "gzip", time: int = 5) -> bytes:
    """Build a compressed message around any bytes."""
    value = zlib.compress(inside, wbits=31) if codec == "gzip" else inside
    return encode(Message(offset, None, value, time), magic, CODECS.index(codec))


def seen(data: bytes) -> list[Message]:
    return [Message(each.offset, each.key, each.value, each.timestamp_ms) for each in records(data)]


@pytest.mark.parametrize("seed", range(30))
def test_logs_of_both_formats(seed: int) -> None:
    data = sample(random.Random(seed), random.Random(seed).randrange(1 << 40), 25)
    expected = decode(data)
    batches = list(walk(data))
    assert [(each.base_offset, each.last_offset, each.record_count, each.size_in_bytes, each.magic, each.codec,
             each.max_timestamp_ms, each.base_timestamp_ms) for each in batches] == [
        (each.messages[0].offset, each.messages[-1].offset, len(each.messages), each.size, each.magic, each.codec,
         each.max_timestamp_ms, each.messages[0].timestamp_ms) for each in expected]
    messages = [message for each in expected for message in each.messages]
    assert seen(data) == messages
    table = pa.table(pa.record_batch(read_columns(data, columns=("offset", "timestamp", "key", "value"))))
    assert table["offset"].to_pylist() == [message.offset for message in messages]
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [message.timestamp_ms for message in messages]
    assert table["key"].to_pylist() == [message.key for message in messages]
    assert table["value"].to_pylist() == [message.value for message in messages]
    for batch in batches:
        assert (batch.leader_epoch, batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1, -1)
        assert not batch.is_control
        assert not batch.is_transactional
        assert batch.valid


def test_types_of_timestamps() -> None:
    plain = Message(0, None, b"x", 5)
    for data, name, number in ((message_set([plain], 0), "NoTimestampType", -1),
                               (message_set([plain], 1), "CreateTime", 0),
                               (message_set([plain], 1, log_append_time=True), "LogAppendTime", 1)):
        assert first_batch(data).timestamp_type == name
        assert [each.timestamp_type for each in records(data)] == [name]
        columns = pa.record_batch(read_columns(data, columns=("timestamp_type",)))
        assert columns["timestamp_type"].to_pylist() == [number]


def test_log_append_time_of_a_compressed_message_is_that_of_all_inside() -> None:
    late = message_set(THREE, 1, "snappy", log_append_time=True)
    assert [each.timestamp_ms for each in records(late)] == [3_000] * 3
    assert [each.timestamp_ms for each in records(message_set(THREE, 1, "snappy"))] == [1_000, 3_000, 2_000]


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_every_flipped_bit_of_what_the_crc_covers_is_found(magic: int, codec: str) -> None:
    data = message_set(THREE, magic, codec)
    end = next(walk(data)).size_in_bytes
    for position in range(12, end):
        flipped = bytearray(data[:end])
        flipped[position] ^= 1 << position % 8
        with pytest.raises(CorruptRecordError):
            list(walk(flipped))


@pytest.mark.parametrize("magic", [0, 1])
def test_a_cut_off_batch_is_no_batch(magic: int) -> None:
    data = message_set(THREE, magic, "lz4")
    for size in range(len(data)):
        batches = walk(data[:size])
        assert list(batches) == []
        assert batches.position == 0


@pytest.mark.parametrize(("position", "fmt", "value"), [
    (0, ">q", -1), (0, ">q", 2**63 - 1), (8, ">i", 13), (8, ">i", -1), (18, ">q", 2**62),
])
def test_wrong_fields_are_corrupt(position: int, fmt: str, value: int) -> None:
    data = bytearray(encode(Message(5, b"key", b"value"), 0))
    struct.pack_into(fmt, data, position, value)
    struct.pack_into(">I", data, 12, zlib.crc32(data[16:]))
    with pytest.raises(CorruptRecordError):
        list(walk(data))


def test_the_wrong_checksum_of_lz4_in_v0_is_no_fault_and_in_v1_one() -> None:
    """KAFKA-3160."""
    for magic in (0, 1):
        sound = decode(message_set(THREE, magic, "lz4"))[0].messages
        for wrong in (False, True):
            packed = message_set(THREE, magic, "lz4")
            start = len(packed) - decoded_value_bytes(packed, magic)
            data = encode(Message(9, None, with_descriptor_checksum(packed[start:], wrong=wrong), 3_000), magic, 3)
            if magic == 1 and wrong:
                with pytest.raises(CorruptRecordError, match="checksum"):
                    seen(data)
            else:
                assert seen(data) == sound


def decoded_value_bytes(data: bytes, magic: int) -> int:
    return int(struct.unpack_from(">i", data, 22 if magic == 0 else 30)[0])


def test_snappy_without_framing() -> None:
    import cramjam

    inside = b"".join(encode(each, 0) for each in THREE)
    data = wrapper(bytes(cramjam.snappy.compress_raw(inside)), 9, 0, "snappy")
    assert [(each.offset, each.value) for each in records(data)] == [(each.offset, each.value) for each in THREE]


def test_gaps_that_compaction_left_inside() -> None:
    left = [THREE[0], THREE[2]]
    for magic in (0, 1):
        batch = first_batch(message_set(left, magic, "gzip"))
        assert (batch.base_offset, batch.last_offset, batch.record_count) == (7, 9, 2)
    # The last message inside shows where the relative offsets begin, whatever the first one is.
    batch = first_batch(wrapper(encode(Message(4, None, b"x", 1), 1) + encode(Message(6, None, b"y", 2), 1), 106, 1))
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (104, 106, 2)


def test_messages_of_another_format_inside() -> None:
    """Kafka accepts them as they are: v0 has no time."""
    data = wrapper(encode(Message(0, b"k", b"x"), 0) + encode(Message(1, b"k", b"y", 8), 1), 21, 1)
    assert seen(data) == [Message(20, b"k", b"x", -1), Message(21, b"k", b"y", 8)]


BAD_INSIDE = {
    "nothing": b"",
    "cut off": encode(THREE[0], 1)[:20],
    "malformed": encode(THREE[0], 1)[:8] + struct.pack(">i", 3) + b"abc" * 9,
    "compressed again": message_set(THREE, 1, "gzip"),
    "offsets fall": encode(THREE[1], 1) + encode(THREE[0], 1),
    "beyond its own offset": encode(Message(1_000, None, b"x", 1), 1),
    "not gzip": None,
}


@pytest.mark.parametrize("what", BAD_INSIDE)
def test_unreadable_bytes_exist_all_the_same(what: str) -> None:
    """The checksum of the outer message is right: the message counts as one record, and reading it reports the
    error."""
    inside = BAD_INSIDE[what]
    data = (wrapper(b"no gzip", 50, 1, "snappy") if inside is None else wrapper(inside, 50, 1)) + encode(
        Message(51, None, b"next", 2), 1)
    assert [(each.base_offset, each.last_offset, each.record_count) for each in walk(data)] == [
        (50, 50, 1), (51, 51, 1)]
    with pytest.raises(CorruptRecordError):
        seen(data)


def test_codecs_that_the_formats_do_not_have() -> None:
    for number in (4, 5, 7):
        data = encode(Message(3, None, b"value", 1), 1, number)
        assert first_batch(data).record_count == 1
        with pytest.raises(CorruptRecordError):
            seen(data)
    with pytest.raises(CorruptRecordError, match="without a value"):
        seen(encode(Message(3, None, None, 1), 1, 1))


def test_limits_of_what_may_become_of_a_message() -> None:
    data = message_set([Message(0, None, bytes(3 << 20), 1)], 1, "gzip")
    assert first_batch(data).record_count == 1
    with pytest.raises(MessageTooLargeError):
        list(records(data, max_bytes=1 << 20))
    with pytest.raises(MessageTooLargeError):
        list(records(data, max_ratio=10))


def test_the_same_message_elsewhere_is_another_one() -> None:
    """The offsets found inside a message are cached by its checksum, which is the same for each of these."""
    inside = encode(Message(0, None, b"x", 1), 1) + encode(Message(1, None, b"y", 2), 1)
    for offset in (1, 501, 4_096, 501, 1):
        batch = first_batch(wrapper(inside, offset, 1))
        assert (batch.base_offset, batch.last_offset, batch.record_count) == (offset - 1, offset, 2)
