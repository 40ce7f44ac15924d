"""Parsing batches, walking them, and the view of one."""

from __future__ import annotations

import struct

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft_native.base.errors import CorruptRecordError
from kraft_native.batch import batch as layout
from kraft_native.batch.batch import (
    ATTRIBUTES_AT,
    CRC_AT,
    Batch,
    count_batches,
    first_batch,
    follow_batches,
    plain_end,
    walk,
)
from kraft_native.batch.control import control_batch
from tests.oracle import batch as oracle


def one(base_offset=0, count=3, **options):
    records = [oracle.OracleRecord(b"v%d" % i, timestamp_ms=1000 + i) for i in range(count)]
    return oracle.encode(records, base_offset=base_offset, **options)


def patched(data, position, fmt, value, *, fix_crc=True):
    data = bytearray(data)
    struct.pack_into(fmt, data, position, value)
    if fix_crc:
        struct.pack_into(">I", data, CRC_AT, oracle.crc32c(bytes(data[ATTRIBUTES_AT:])))
    return bytes(data)


def test_the_layout_is_that_of_the_reference_implementation():
    names = ("BASE_OFFSET", "LENGTH", "LEADER_EPOCH", "MAGIC", "CRC", "ATTRIBUTES", "LAST_OFFSET_DELTA",
             "BASE_TIMESTAMP", "MAX_TIMESTAMP", "PRODUCER_ID", "PRODUCER_EPOCH", "BASE_SEQUENCE", "RECORD_COUNT")
    kinds = oracle.HEADER.format.removeprefix(">")
    starts = [struct.calcsize(f">{kinds[:number]}") for number in range(len(kinds))]
    assert [getattr(layout, f"{name}_AT") for name in names] == starts
    assert (oracle.HEADER.size, starts[2]) == (layout.HEADER_BYTES, layout.OVERHEAD_BYTES)


def test_view_gives_every_header_field():
    data = one(70, 5, leader_epoch=4, producer_id=9, producer_epoch=2, base_sequence=11,
               attributes=oracle.TRANSACTIONAL)
    batch = first_batch(data)
    assert (batch.base_offset, batch.last_offset, batch.next_offset) == (70, 74, 75)
    assert batch.size_in_bytes == len(data) and bytes(batch) == data and memoryview(batch) == data
    assert (batch.leader_epoch, batch.magic, batch.record_count) == (4, 2, 5)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (9, 2, 11, 15)
    assert batch.is_transactional and not batch.is_control
    assert batch.codec == "none" and batch.timestamp_type == "CreateTime"
    assert (batch.base_timestamp_ms, batch.max_timestamp_ms, batch.delete_horizon_ms) == (1000, 1004, None)
    assert batch.crc == oracle.decode(data).crc and batch.valid
    assert batch.attributes == oracle.TRANSACTIONAL
    assert "70..74" in repr(batch)


def test_delete_horizon_and_log_append_time():
    batch = first_batch(one(attributes=oracle.DELETE_HORIZON, log_append_time=77))
    assert batch.delete_horizon_ms == batch.base_timestamp_ms == 1000
    assert batch.timestamp_type == "LogAppendTime" and batch.max_timestamp_ms == 77


def test_last_sequence_wraps_to_zero():
    batch = first_batch(one(count=5, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2))
    assert batch.last_sequence == 2
    assert first_batch(one()).last_sequence == -1


def test_walk_yields_whole_batches_and_stops_at_a_cut_one():
    whole = one(0) + one(3) + one(6)
    for cut in range(1, len(one(6))):
        batches = walk(whole[:-cut])
        assert [batch.base_offset for batch in batches] == [0, 3]
        assert batches.position == len(one(0)) * 2
    batches = walk(whole)
    assert [batch.base_offset for batch in batches] == [0, 3, 6]
    assert batches.position == len(whole)
    assert list(walk(b"")) == []


def test_walk_finds_every_flipped_bit_of_what_the_crc_covers():
    data = one()
    for position in range(16, len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            with pytest.raises(CorruptRecordError):
                list(walk(flipped))


@pytest.mark.parametrize(
    ("position", "fmt", "value", "text"),
    [
        (0, ">q", -1, "base offset -1"),
        (0, ">q", 2**63 - 2, "last offset delta"),
        (8, ">i", 48, "batch length 48"),
        (8, ">i", -1, "batch length -1"),
        (16, ">b", 1, "magic 1"),
        (16, ">b", 3, "magic 3"),
        (17, ">I", 0, "crc"),
        (23, ">i", -1, "last offset delta -1"),
        (57, ">i", -1, "-1 records"),
        (57, ">i", 4, "4 records"),
    ],
)
def test_wrong_header_fields_are_corrupt(position, fmt, value, text):
    data = patched(one(), position, fmt, value, fix_crc=position != 17)
    with pytest.raises(CorruptRecordError, match=f"at byte 0: .*{text}") as caught:
        list(walk(data))
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
    assert count_batches(data, check_crc=True) == (0, 0)


def test_compacted_batches_may_have_gaps_or_no_records():
    gaps = oracle.assemble(b"", 0, 9, -1, 5, 0, base_offset=100)
    batch = first_batch(gaps)
    assert (batch.record_count, batch.base_offset, batch.last_offset) == (0, 100, 109)


def test_short_header_is_partial_unless_its_fields_say_otherwise():
    assert list(walk(one()[:20])) == []
    for position, fmt, value in ((0, ">q", -5), (8, ">i", 3), (16, ">b", 3)):
        wrong = patched(one(), position, fmt, value, fix_crc=False)
        for size in range(position + struct.calcsize(fmt), 61):
            if position == 8 or size >= 17 or position == 0:
                with pytest.raises(CorruptRecordError):
                    list(walk(wrong[:size]))


def test_first_batch_refuses_what_is_not_whole():
    for size in range(len(one())):
        with pytest.raises(CorruptRecordError):
            first_batch(one()[:size])


def test_count_batches_without_and_with_crc():
    data = one(0) + one(3)
    assert count_batches(data) == (2, len(data))
    assert count_batches(data[:-1]) == (1, len(one()))
    broken = data[:-1] + b"\xff"
    assert count_batches(broken) == (2, len(data))
    assert count_batches(broken, check_crc=True) == (1, len(one()))


def test_a_view_keeps_its_buffer():
    data = bytearray(one())
    batch = first_batch(data)
    with pytest.raises(BufferError):
        data.append(0)
    del batch
    data.append(0)


def test_batches_are_not_made_by_hand():
    with pytest.raises(TypeError):
        Batch()
    with pytest.raises(TypeError):
        walk(5)


def test_follow_batches_ends_where_offsets_are_missing():
    data = one(10, 1) + one(11, 1) + one(13, 1)
    size = len(one(0, 1))
    assert follow_batches(data, 10) == (2 * size, 12)
    assert follow_batches(data, 11) == (2 * size, 12)
    assert follow_batches(data, 12) == (2 * size, 12)
    assert follow_batches(data, 13) == (3 * size, 14)
    assert follow_batches(data, 20) == (3 * size, 20)
    assert follow_batches(data, 9) == (0, 9)
    assert follow_batches(data, 9, gaps=True) == follow_batches(data, 12, gaps=True) == (3 * size, 14)


def test_follow_batches_ends_at_damage():
    data = one(0, 1) + one(1, 1)
    size = len(one(0, 1))
    broken = bytearray(data)
    broken[-1] ^= 1
    assert follow_batches(data[:-1], 0) == follow_batches(broken, 0) == (size, 1)
    assert follow_batches(broken, 0, check_crc=False) == (2 * size, 2)
    assert follow_batches(b"", 5) == (0, 5)


def test_plain_batches_that_follow_each_other():
    first, second = one(10, 2, leader_epoch=3), one(12, 1, leader_epoch=3)
    assert plain_end(first + second, 10, 3) == 13
    assert plain_end(first, 10, 3) == 12
    control = control_batch([(2, b"")], timestamp_ms=1, base_offset=12, leader_epoch=3)
    for other in (b"", first + second[:-1], first + control, first + one(12, 1, leader_epoch=4),
                  first + one(13, 1, leader_epoch=3), one(9, 1, leader_epoch=3) + first):
        assert plain_end(other, 10, 3) == -1
