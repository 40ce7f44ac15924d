"""The leader's checks, one by one with their codes, its repairs, and all of it against the oracle."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft.protocol.error_codes import ErrorCode
from kraft_native.base.errors import (
    CorruptRecordError,
    InvalidArgumentError,
    InvalidRecordError,
    InvalidTimestampError,
    KraftError,
    MessageTooLargeError,
)
from kraft_native.batch.batch import (
    ATTRIBUTES_AT,
    BASE_OFFSET_AT,
    BASE_TIMESTAMP_AT,
    CRC_AT,
    HEADER_BYTES,
    LAST_OFFSET_DELTA_AT,
    LENGTH_AT,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    OVERHEAD_BYTES,
    RECORD_COUNT_AT,
    first_batch,
)
from kraft_native.batch.records import BatchBuilder, records
from kraft_native.batch.validate import ValidatedBatch, validate
from tests.oracle import batch as oracle

NOW = 1_700_000_000_000
HOUR = 3_600_000
CODECS = oracle.CODECS
COMPRESSED = CODECS[1:]


def batch(codec="none", times=(NOW, NOW + 1, NOW - 5), key=b"k", **options):
    items = [oracle.OracleRecord(b"value %d" % i, key, time, [(b"h", b"x")]) for i, time in enumerate(times)]
    return oracle.encode(items, codec, **options)


def patched(data, position, fmt, value, *, fix_crc=True):
    data = bytearray(data)
    struct.pack_into(fmt, data, position, value)
    if fix_crc:
        struct.pack_into(">I", data, CRC_AT, oracle.crc32c(bytes(data[ATTRIBUTES_AT:])))
    return bytes(data)


def refusal(data, error, code, match=None, **options):
    with pytest.raises(error, match=match) as caught:
        validate(data, now_ms=NOW, **options)
    assert type(caught.value) is error and caught.value.code == code
    return caught.value


@pytest.mark.parametrize("codec", CODECS)
def test_a_good_batch_is_kept_byte_for_byte(codec):
    data = batch(codec, producer_id=4, producer_epoch=1, base_sequence=0, attributes=oracle.TRANSACTIONAL)
    result = validate(data, now_ms=NOW)
    assert result.data == data and not result.rewritten and result.max_timestamp_delta == 1
    with pytest.raises(TypeError):
        ValidatedBatch()


# --- one test per check


def test_length_below_the_smallest():
    for length in (13, 0, -1):
        refusal(patched(batch(), LENGTH_AT, ">i", length), CorruptRecordError, ErrorCode.CORRUPT_MESSAGE,
                "batch length")


@pytest.mark.parametrize(("magic", "error", "code"), [
    (3, CorruptRecordError, ErrorCode.CORRUPT_MESSAGE), (-1, CorruptRecordError, ErrorCode.CORRUPT_MESSAGE),
    (127, CorruptRecordError, ErrorCode.CORRUPT_MESSAGE),
    (0, InvalidRecordError, ErrorCode.INVALID_RECORD), (1, InvalidRecordError, ErrorCode.INVALID_RECORD),
])
def test_magic(magic, error, code):
    refusal(patched(batch(), MAGIC_AT, ">b", magic), error, code, f"magic {magic if magic >= 0 else ''}")


def test_cut_off_or_nothing_at_all():
    data = batch()
    for size in range(len(data)):
        refusal(data[:size], InvalidRecordError, ErrorCode.INVALID_RECORD, "no whole batch")


def test_more_than_one_batch():
    refusal(batch() + batch(), InvalidRecordError, ErrorCode.INVALID_RECORD, "a second batch")
    refusal(batch() + patched(batch(), LENGTH_AT, ">i", 5), CorruptRecordError, ErrorCode.CORRUPT_MESSAGE,
            "batch length 5")
    refusal(batch() + patched(batch(), MAGIC_AT, ">b", 9), CorruptRecordError, ErrorCode.CORRUPT_MESSAGE, "magic 9")


def test_bytes_after_the_batch_that_are_no_batch_are_dropped():
    data = batch()
    assert validate(data + batch()[:-1], now_ms=NOW).data == data
    assert validate(data + b"\xff" * 11, now_ms=NOW).data == data


def test_shorter_than_a_header():
    for length in (14, 48):
        refusal(patched(batch()[:OVERHEAD_BYTES + length], LENGTH_AT, ">i", length), CorruptRecordError,
                ErrorCode.CORRUPT_MESSAGE,
                "shorter than its header")


def test_base_offset_not_zero():
    for offset in (1, -1):
        refusal(patched(batch(), BASE_OFFSET_AT, ">q", offset), InvalidRecordError, ErrorCode.INVALID_RECORD,
                f"base offset {offset}")
    assert validate(patched(batch(), BASE_OFFSET_AT, ">q", 7), now_ms=NOW, origin="coordinator").data


def test_larger_than_allowed():
    data = batch()
    assert validate(data, now_ms=NOW, batch_bytes_max=len(data)).data == data
    refusal(data, MessageTooLargeError, ErrorCode.MESSAGE_TOO_LARGE, "max.message.bytes", batch_bytes_max=len(data) - 1)
    # Kafka checks the size before the CRC.
    refusal(data[:-1] + b"\xff", MessageTooLargeError, ErrorCode.MESSAGE_TOO_LARGE, batch_bytes_max=len(data) - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_every_flipped_bit_of_what_the_crc_covers(codec):
    data = batch(codec, times=(NOW,))
    for position in range(17, len(data)):
        refusal(data[:position] + bytes([data[position] ^ 0x10]) + data[position + 1:], CorruptRecordError,
                ErrorCode.CORRUPT_MESSAGE, "crc")


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codec(codec):
    refusal(patched(batch(), ATTRIBUTES_AT, ">h", codec), CorruptRecordError, ErrorCode.CORRUPT_MESSAGE,
            f"codec {codec}")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("origin", ["client", "coordinator", "raft-leader"])
def test_record_count_and_last_offset_delta(codec, origin):
    data = batch(codec)
    for count, delta in ((0, 2), (-1, 2), (2, 2), (4, 2), (3, 1), (3, 3), (3, -1), (0, -1), (2**31 - 1, -2**31)):
        wrong = patched(patched(data, RECORD_COUNT_AT, ">i", count), LAST_OFFSET_DELTA_AT, ">i", delta)
        refusal(wrong, InvalidRecordError, ErrorCode.INVALID_RECORD, f"{count} records with last offset delta {delta}",
                origin=origin)
    for count in (2, 4):
        wrong = patched(patched(data, RECORD_COUNT_AT, ">i", count), LAST_OFFSET_DELTA_AT, ">i", count - 1)
        refusal(wrong, InvalidRecordError, ErrorCode.INVALID_RECORD, "malformed|bytes after the last", origin=origin)


def test_control_batch():
    data = batch(attributes=oracle.CONTROL)
    refusal(data, InvalidRecordError, ErrorCode.INVALID_RECORD, "control")
    assert validate(data, now_ms=NOW, origin="coordinator").data == data


def test_producer_id_without_sequence():
    data = batch(producer_id=0, producer_epoch=0)
    refusal(data, InvalidRecordError, ErrorCode.INVALID_RECORD, "base sequence -1 with producer id 0")
    assert validate(data, now_ms=NOW, origin="coordinator").data == data
    assert validate(batch(producer_id=-1, base_sequence=-1), now_ms=NOW).data


@pytest.mark.parametrize("codec", COMPRESSED)
def test_undecodable_payload(codec):
    refusal(batch(codec, compressed=b"\x01rubbish that is no stream"), CorruptRecordError, ErrorCode.CORRUPT_MESSAGE,
            codec)
    refusal(batch(codec, compressed=b""), CorruptRecordError, ErrorCode.CORRUPT_MESSAGE, codec)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bomb(codec):
    data = batch(codec, compressed=oracle.compress(codec, bytes(4 << 20)))
    refusal(data, MessageTooLargeError, ErrorCode.MESSAGE_TOO_LARGE, "decompress to more", max_bytes=2 << 20)
    refusal(data, MessageTooLargeError, ErrorCode.MESSAGE_TOO_LARGE, "decompress to more", max_ratio=3)


@pytest.mark.parametrize("codec", CODECS)
def test_malformed_records_and_bytes_after_them(codec):
    good = oracle.encode_record(oracle.OracleRecord(b"v"), 0, 0)
    for body in (b"", good[:-1], b"\x01" + good, bytes([good[0] + 2]) + good[1:] + b"x", b"\x02" + good[1:]):
        data = oracle.assemble(oracle.compress(codec, body), CODECS.index(codec), 0, 0, 0, 1)
        refusal(data, InvalidRecordError, ErrorCode.INVALID_RECORD, "record 0 of 1 is malformed|bytes after the last")
    data = oracle.assemble(oracle.compress(codec, good + b"\0"), CODECS.index(codec), 0, 0, 0, 1)
    refusal(data, InvalidRecordError, ErrorCode.INVALID_RECORD, "1 bytes after the last of 1 records")


@pytest.mark.parametrize("codec", CODECS)
def test_missing_keys(codec):
    items = [oracle.OracleRecord(b"", key, NOW) for key in (b"", None, b"k", None)]
    data = oracle.encode(items, codec)
    assert validate(data, now_ms=NOW).data == data
    error = refusal(data, InvalidRecordError, ErrorCode.INVALID_RECORD, "2 of 4 records .* record 1: .*key",
                    key_required=True)
    assert [index for index, _ in error.record_errors] == [1, 3]
    assert validate(batch(codec), now_ms=NOW, key_required=True).data


@pytest.mark.parametrize("codec", CODECS)
def test_times_out_of_range(codec):
    edge = {"timestamp_before_max_ms": 1000, "timestamp_after_max_ms": 50}
    assert validate(batch(codec, (NOW - 1000, NOW + 50, -1)), now_ms=NOW, **edge).data
    error = refusal(batch(codec, (NOW - 1001, NOW, NOW + 51)), InvalidTimestampError, ErrorCode.INVALID_TIMESTAMP,
                    "record 0: timestamp", **edge)
    assert [index for index, _ in error.record_errors] == [0, 2]
    refusal(batch(codec, (NOW + HOUR + 1,)), InvalidTimestampError, ErrorCode.INVALID_TIMESTAMP)
    assert validate(batch(codec, (0, NOW + HOUR)), now_ms=NOW).data
    assert validate(batch(codec, (-1, -1)), now_ms=NOW, timestamp_before_max_ms=0).data


def test_times_at_the_ends_of_the_range():
    assert validate(batch(times=(2**63 - 1,)), now_ms=NOW, timestamp_after_max_ms=2**63 - 1).data
    assert validate(batch(times=(-5,)), now_ms=NOW).data
    refusal(batch(times=(-2**63,)), InvalidTimestampError, ErrorCode.INVALID_TIMESTAMP)
    assert validate(batch(times=(NOW + 10**9,)), now_ms=NOW, timestamp_type="LogAppendTime").data


def test_a_missing_key_hides_a_wrong_time():
    items = [oracle.OracleRecord(b"", None, NOW + 2 * HOUR), oracle.OracleRecord(b"", None, NOW)]
    error = refusal(oracle.encode(items), InvalidRecordError, ErrorCode.INVALID_RECORD, key_required=True)
    assert len(error.record_errors) == 2
    items.append(oracle.OracleRecord(b"", b"k", NOW + 2 * HOUR))
    error = refusal(oracle.encode(items), InvalidTimestampError, ErrorCode.INVALID_TIMESTAMP, key_required=True)
    assert len(error.record_errors) == 3


@pytest.mark.parametrize("codec", CODECS)
def test_claimed_log_append_time(codec):
    data = batch(codec, log_append_time=NOW - 3)
    error = refusal(data, InvalidTimestampError, ErrorCode.INVALID_TIMESTAMP, "must not claim",
                    timestamp_type="LogAppendTime")
    assert [index for index, _ in error.record_errors] == [0, 1, 2]
    # On a CreateTime topic the bit is cleared, and the claimed time stays the maximum.
    kept = first_batch(validate(data, now_ms=NOW).data)
    assert (kept.timestamp_type, kept.max_timestamp_ms, kept.valid) == ("CreateTime", NOW - 3, True)
    refusal(batch(codec, log_append_time=NOW + HOUR + 1), InvalidTimestampError, ErrorCode.INVALID_TIMESTAMP)
    refusal(batch(codec, log_append_time=-1), InvalidTimestampError, ErrorCode.INVALID_TIMESTAMP, "must not claim")


def test_larger_after_it_was_encoded_again():
    data = oracle.encode([oracle.OracleRecord(bytes(5000), timestamp_ms=NOW)], "zstd")
    refusal(data, MessageTooLargeError, ErrorCode.MESSAGE_TOO_LARGE, "once it is encoded again",
            compression_type="none", batch_bytes_max=4000)


# --- repairs


@pytest.mark.parametrize("codec", CODECS)
def test_maximum_timestamp_is_set_right(codec):
    data = batch(codec, attributes=oracle.DELETE_HORIZON | 0x80)
    for claimed in (0, NOW + 10**15, -1):
        result = validate(patched(data, MAX_TIMESTAMP_AT, ">q", claimed), now_ms=NOW)
        assert result.data == data and not result.rewritten and result.max_timestamp_delta == 1


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 1, 1000, 70_000])
def test_log_append_time_is_set(codec, size):
    data = oracle.encode([oracle.OracleRecord(bytes(size), timestamp_ms=5), oracle.OracleRecord(b"", timestamp_ms=9)],
                         codec)
    result = validate(data, now_ms=NOW, timestamp_type="LogAppendTime")
    stored = first_batch(result.data)
    assert stored.valid and (stored.timestamp_type, stored.max_timestamp_ms) == ("LogAppendTime", NOW)
    assert stored.base_timestamp_ms == 5 and result.max_timestamp_delta == 0 and not result.rewritten
    assert result.data[HEADER_BYTES:] == data[HEADER_BYTES:]
    assert {record.timestamp_ms for record in records(result.data)} == {NOW}


@pytest.mark.parametrize("source", CODECS)
@pytest.mark.parametrize("target", CODECS)
def test_recompressed_for_the_topic(source, target):
    data = batch(source, producer_id=4, producer_epoch=1, base_sequence=8, attributes=oracle.TRANSACTIONAL)
    result = validate(data, now_ms=NOW, compression_type=target)
    assert result.rewritten == (source != target)
    stored = oracle.decode(result.data)
    assert CODECS[stored.attributes & 7] == target and stored.attributes & oracle.TRANSACTIONAL
    assert stored.records == oracle.decode(data).records
    assert (stored.producer_id, stored.producer_epoch, stored.base_sequence) == (4, 1, 8)
    assert (stored.max_timestamp, result.max_timestamp_delta) == (NOW + 1, 1)


@pytest.mark.parametrize("target", ["producer", *CODECS])
def test_times_below_minus_one_are_never_the_largest(target):
    """This holds both for a batch that is encoded again and for one that is not."""
    data = patched(oracle.encode([oracle.OracleRecord(b"v", timestamp_ms=NOW)]), BASE_TIMESTAMP_AT, ">q", -2)
    result = validate(data, now_ms=NOW, compression_type=target)
    stored, kept = oracle.validate(data, oracle.Topic(NOW, codec=target))
    assert first_batch(result.data).max_timestamp_ms == first_batch(stored).max_timestamp_ms == -1
    assert [record.timestamp_ms for record in kept] == [-2]


def test_recompressed_at_a_level():
    text = b" ".join(b"%d" % (i * i % 997) for i in range(4000))
    data = oracle.encode([oracle.OracleRecord(text, timestamp_ms=NOW)])
    sizes = [len(validate(data, now_ms=NOW, compression_type="zstd", level=level).data) for level in (-20, 3, 19)]
    assert sizes[0] > sizes[1] > sizes[2]
    with pytest.raises(InvalidArgumentError, match="level 99"):
        validate(data, now_ms=NOW, compression_type="zstd", level=99)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_compressed_batches_are_numbered_again(codec):
    items = [oracle.OracleRecord(b"v%d" % i, timestamp_ms=NOW + i, offset_delta=delta)
             for i, delta in enumerate((1, 5, 2))]
    data = patched(oracle.encode(items, codec, attributes=oracle.DELETE_HORIZON), LAST_OFFSET_DELTA_AT, ">i", 2)
    result = validate(data, now_ms=NOW)
    stored = oracle.decode(result.data)
    assert result.rewritten and [record.offset_delta for record in stored.records] == [0, 1, 2]
    assert not stored.attributes & oracle.DELETE_HORIZON and CODECS[stored.attributes & 7] == codec
    assert result.max_timestamp_delta == 2


def test_uncompressed_inner_deltas_are_left_alone():
    items = [oracle.OracleRecord(b"v", timestamp_ms=NOW, offset_delta=delta) for delta in (4, 9)]
    data = patched(oracle.encode(items), LAST_OFFSET_DELTA_AT, ">i", 1)
    assert validate(data, now_ms=NOW).data == data


def test_control_batches_keep_their_codec():
    data = batch(attributes=oracle.CONTROL)
    assert validate(data, now_ms=NOW, origin="coordinator", compression_type="zstd").data == data


def test_rafts_own_batches_are_kept_as_they_are():
    data = patched(batch("none", (NOW + 10**12, -1), key=None, base_offset=77, leader_epoch=5), MAX_TIMESTAMP_AT, ">q",
                   3)
    result = validate(data, now_ms=NOW, origin="raft-leader", key_required=True, timestamp_type="LogAppendTime",
                      compression_type="zstd")
    assert result.data == data
    refusal(data[:-1] + b"\xff", CorruptRecordError, ErrorCode.CORRUPT_MESSAGE, origin="raft-leader")


@pytest.mark.parametrize("wrong", [
    {"origin": "me"}, {"timestamp_type": "Never"}, {"compression_type": "lzma"}, {"batch_bytes_max": -1},
    {"timestamp_after_max_ms": -1}, {"timestamp_before_max_ms": -1},
])
def test_wrong_options(wrong):
    with pytest.raises(InvalidArgumentError, match=next(iter(wrong)).replace("compression_type", "codec")):
        validate(batch(), now_ms=NOW, **wrong)
    with pytest.raises(InvalidArgumentError, match="now_ms"):
        validate(batch(), now_ms=-1)


# --- everything at once


times = st.one_of(st.integers(NOW - 3000, NOW + 3000),
                  st.sampled_from([-1, 0, NOW + HOUR, NOW + HOUR + 1, 2**63 - 1, -2**63]))
topics = st.builds(oracle.Topic, st.just(NOW), st.booleans(), st.sampled_from([2**63 - 1, 2500]), st.just(HOUR),
                   st.sampled_from([1_048_588, 150]), st.sampled_from(("producer", *CODECS)), st.booleans())
items = st.builds(oracle.OracleRecord, st.one_of(st.none(), st.binary(max_size=50)),
                  st.one_of(st.just(b"k"), st.none(), st.binary(max_size=9)), times,
                  st.lists(st.tuples(st.binary(max_size=3), st.one_of(st.none(), st.binary(max_size=3))), max_size=2))
fields = st.sampled_from([(0, ">q"), (8, ">i"), (16, ">b"), (21, ">h"), (23, ">i"), (27, ">q"), (35, ">q"), (43, ">q"),
                          (51, ">h"), (53, ">i"), (57, ">i")])


def outcome(call):
    try:
        return call()
    except (oracle.Refused, KraftError) as error:
        return error


@settings(max_examples=500)
@given(st.lists(items, min_size=1, max_size=6), st.sampled_from(CODECS), topics, st.data())
def test_against_the_oracle(drawn, codec, topic, data):
    source = oracle.encode(drawn, codec, log_append_time=data.draw(st.sampled_from([None, None, None, NOW - 9])))
    for _ in range(data.draw(st.sampled_from([0, 0, 1, 2]))):
        position, fmt = data.draw(fields)
        bits = 8 * struct.calcsize(fmt) - 1
        value = data.draw(st.one_of(st.integers(-2, 8), st.integers(-2**bits, 2**bits - 1)))
        source = patched(source, position, fmt, value)
    if data.draw(st.integers(0, 5)) == 0 and codec == "none":
        flip = data.draw(st.integers(61, len(source) - 1))
        source = patched(source, flip, ">B", source[flip] ^ 1 << data.draw(st.integers(0, 7)))
    options = {
        "now_ms": NOW, "timestamp_type": "LogAppendTime" if topic.late else "CreateTime",
        "timestamp_before_max_ms": topic.before, "timestamp_after_max_ms": topic.after,
        "batch_bytes_max": topic.bytes_max, "compression_type": topic.codec, "key_required": topic.compacted,
    }
    want = outcome(lambda: oracle.validate(source, topic))
    got = outcome(lambda: validate(source, **options))
    if isinstance(want, Exception):
        refusal: Any = want
        assert isinstance(got, KraftError) and got.code == refusal.code
        assert [index for index, _ in getattr(got, "record_errors", ())] == refusal.records
        return
    stored, kept = want
    if got.rewritten:
        # The libraries' bytes differ in framing only; their content must be equal.
        assert oracle.decode(got.data).records == oracle.decode(stored).records
        assert got.data[ATTRIBUTES_AT:HEADER_BYTES] == stored[ATTRIBUTES_AT:HEADER_BYTES]
        highest = [record.timestamp_ms for record in kept]
        if not topic.late and max(highest) > -1:
            assert got.max_timestamp_delta == highest.index(max(highest))
    else:
        assert got.data == stored


def test_builder_output_is_always_accepted():
    for codec in CODECS:
        builder = BatchBuilder(codec)
        for i in range(300):
            builder.append(b"v" * i, b"k", NOW + i % 7)
        assert validate(builder.build(producer_id=1, producer_epoch=0, base_sequence=0), now_ms=NOW,
                        key_required=True).max_timestamp_delta == 6
