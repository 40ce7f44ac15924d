"""Batches as columns: Kafka's batches, limits and filters, damage, and the memory behind the arrays."""

import gc
import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_native.base.errors import CorruptRecordError, InvalidArgumentError, MessageTooLargeError
from kraft_native.batch.batch import (
    BASE_TIMESTAMP_AT,
    CRC_AT,
    HEADER_BYTES,
    LAST_OFFSET_DELTA_AT,
    MAGIC_AT,
    RECORD_COUNT_AT,
    walk,
)
from kraft_native.batch.control import marker
from kraft_native.batch.records import BatchBuilder, records
from kraft_native.columns.reader import COLUMNS, ColumnReader, read_columns
from kraft_native.file import buffer
from tests.golden import partitions

TYPES = {
    "offset": pa.int64(), "timestamp": pa.timestamp("ms", "UTC"), "timestamp_type": pa.int8(),
    "leader_epoch": pa.int32(), "key": pa.binary(), "value": pa.binary(),
}


def table(columns) -> pa.RecordBatch:
    """Return a table through the Arrow capsules, fully validated."""
    batch = pa.record_batch(columns)
    batch.validate(full=True)
    return batch


def rows(columns) -> list[dict]:
    """Return one dict per row, times as plain ms."""
    batch = table(columns)
    if "timestamp" in batch.schema.names:
        index = batch.schema.get_field_index("timestamp")
        batch = batch.set_column(index, "timestamp", batch.column("timestamp").cast(pa.int64()))
    return batch.to_pylist()


def by_records(data: bytes, **options) -> list[dict]:
    """Return the same rows by the record iterator."""
    return [
        {"offset": r.offset, "timestamp": r.timestamp_ms, "timestamp_type": int(r.timestamp_type == "LogAppendTime"),
         "leader_epoch": r.leader_epoch, "key": r.key, "value": r.value,
         "headers": [{"key": key, "value": value} for key, value in r.headers]}
        for r in records(data, **options)
    ]


def build(content, *, base_offset=0, codec="none", producer_id=-1, transactional=False) -> bytes:
    """Build a batch of (key, value, headers, timestamp)."""
    builder = BatchBuilder(codec, transactional=transactional)
    for key, value, headers, timestamp in content:
        builder.append(value, key, timestamp, headers)
    return builder.build(base_offset, producer_id=producer_id, leader_epoch=3,
                         producer_epoch=0 if producer_id >= 0 else -1, base_sequence=0 if producer_id >= 0 else -1)


def numbered(base_offset, count, **options) -> bytes:
    return build([(b"k", b"%d" % (base_offset + i), (), 100) for i in range(count)], base_offset=base_offset, **options)


# --- batches that Kafka wrote


@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_golden_partitions(partition):
    reader = ColumnReader(COLUMNS)
    found = []
    for log in sorted(partition.directory.glob("*.log")):
        columns = reader.read(log.read_bytes(), start_offset=partition.expected["earliest"])
        assert columns.next_position == log.stat().st_size
        found += rows(columns)
    expected = partition.records()
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours["offset"] == theirs["offset"]
        assert ours["timestamp"] == theirs["timestamp"]
        assert ours["timestamp_type"] == (theirs["timestamp_type"] == "LogAppendTime")
        assert ours["leader_epoch"] == theirs["leader_epoch"]
        assert (ours["key"].hex() if ours["key"] is not None else None) == theirs["key"]
        if "value" in theirs:
            assert (ours["value"].hex() if ours["value"] is not None else None) == theirs["value"]
        else:
            assert len(ours["value"]) == theirs["value_ref"]["len"]
            assert hashlib.sha256(ours["value"]).hexdigest() == theirs["value_ref"]["sha256"]
        headers = [[h["key"], None if h["value"] is None else h["value"].hex()] for h in ours["headers"]]
        assert headers == theirs["headers"]


@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_golden_partitions_read_committed(partition):
    """The aborted transactions are those of Kafka's own replies, as pairs and with their markers' offsets."""
    ranges = partition.expected["read_committed_offsets"]
    expected = [offset for first, last in ranges for offset in range(first, last + 1)]
    data = b"".join(log.read_bytes() for log in sorted(partition.directory.glob("*.log")))
    names = [name for name in partition.files if name.endswith(".txnindex")]
    indexed = [entry for name in names for entry in partition.files[name]["entries"]]
    for aborted in ([(e["producerId"], e["firstOffset"]) for e in indexed],
                    [(e["producerId"], e["firstOffset"], e["lastOffset"]) for e in indexed]):
        columns = read_columns(data, columns=("offset",), start_offset=partition.expected["earliest"],
                               end_offset=partition.expected["last_stable_offset"], aborted=aborted)
        ours = columns.numpy("offset").tolist()
        if partition.name.startswith("compacted"):
            assert set(ours) <= set(expected)
        else:
            assert ours == expected


# --- against the record iterator

HEADERS = st.lists(st.tuples(st.text(max_size=6), st.none() | st.binary(max_size=70)), max_size=3)
CONTENT = st.lists(
    st.tuples(st.none() | st.binary(max_size=80), st.none() | st.binary(max_size=200), HEADERS,
              st.integers(-1, 2**50)),
    min_size=1, max_size=12)


@given(st.lists(st.tuples(CONTENT, st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"])), max_size=5), st.data())
def test_same_as_the_record_iterator(batches, data):
    source, offset = b"", 0
    for content, codec in batches:
        source += build(content, base_offset=offset, codec=codec)
        offset += len(content) + 2
    expected = by_records(source)
    wanted = data.draw(st.permutations(COLUMNS).flatmap(
        lambda names: st.integers(1, len(names)).map(lambda count: names[:count])))
    columns = read_columns(source, columns=wanted)
    assert rows(columns) == [{name: row[name] for name in wanted} for row in expected]
    assert columns.names == tuple(wanted)
    assert columns.next_offset == (expected[-1]["offset"] + 1 if expected else 0)
    low = data.draw(st.integers(0, offset + 1))
    high = data.draw(st.integers(0, offset + 1))
    some = data.draw(st.integers(1, 10))
    part = read_columns(source, columns=("offset",), start_offset=low, end_offset=high, max_records=some)
    within = [row["offset"] for row in expected if low <= row["offset"] < high]
    assert part.numpy("offset").tolist() == within[:some]


@given(CONTENT, st.integers(1, 5))
def test_reading_on_gives_everything_once(content, step):
    codecs = ["none", "lz4", "none"]
    source = b"".join(build(content, base_offset=100 * i, codec=codec) for i, codec in enumerate(codecs))
    reader = ColumnReader(("offset",))
    position = offset = 0
    found = []
    while position < len(source):
        columns = reader.read(source, position=position, start_offset=offset, max_records=step)
        position, offset = columns.next_position, columns.next_offset
        found += columns.numpy("offset").tolist()
        assert 0 < len(columns) <= step or position == len(source)
    assert found == [row["offset"] for row in by_records(source)]


def test_types_and_nulls():
    source = build([(None, b"", [("a", None)], 5), (b"", None, (), 6)])
    batch = table(read_columns(source, columns=COLUMNS))
    for name, expected in TYPES.items():
        assert batch.schema.field(name).type == expected
        assert batch.schema.field(name).nullable == (name in ("key", "value"))
    assert batch.column("key").to_pylist() == [None, b""]
    assert batch.column("value").to_pylist() == [b"", None]
    assert batch.column("headers").to_pylist() == [[{"key": "a", "value": None}], []]
    assert batch.column("value").null_count == 1


def test_nulls_far_apart_while_the_columns_grow():
    source = b"".join(build([(b"k" if i % 3 else None, None if i in (9_999, 20_000) else b"v", (), 0)], base_offset=i,
                            codec="lz4" if i % 2 else "none") for i in range(20_001))
    batch = table(read_columns(source, check_crc=False))
    assert batch.column("key").to_pylist() == [b"k" if i % 3 else None for i in range(20_001)]
    assert [i for i, value in enumerate(batch.column("value").to_pylist()) if value is None] == [9_999, 20_000]


def test_header_keys_become_valid_utf8():
    invalid = [b"\xff", b"a\x80b", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf",
               b"\xf0\x9f\x98"]
    valid = ["", "a", "é", "世", "😀", "\uffff", "\U0010ffff", "\u0800"]
    source = build([(None, None, [(key, b"x") for key in [*invalid, *(key.encode() for key in valid)]], 0)])
    (row,) = rows(read_columns(source, columns=("headers",)))
    keys = [header["key"] for header in row["headers"]]
    assert keys[len(invalid):] == valid
    assert keys[:3] == ["\ufffd", "a\ufffdb", "\ufffd"]
    assert all(len(key) == len(raw) and "\ufffd" in key for key, raw in zip(keys[3:8], invalid[3:8], strict=True))


# --- filters


def txn(base_offset, pid, count=2):
    return numbered(base_offset, count, producer_id=pid, transactional=True)


def ended(base_offset, pid, commit):
    return marker(commit=commit, producer_id=pid, producer_epoch=0, coordinator_epoch=0, timestamp_ms=1,
                  base_offset=base_offset)


def test_aborted_transactions_and_control_batches():
    source = b"".join([
        txn(0, 7), txn(2, 8), ended(4, 7, False), txn(5, 7), numbered(7, 1),
        ended(8, 7, True), txn(9, 8),
        ended(11, 8, False), txn(12, 8),
    ])
    def offsets(**options):
        return read_columns(source, columns=("offset",), **options).numpy("offset").tolist()
    assert offsets() == [0, 1, 2, 3, 5, 6, 7, 9, 10, 12, 13]
    assert offsets(control=True) == list(range(14))
    assert offsets(aborted=[(7, 0)]) == [2, 3, 5, 6, 7, 9, 10, 12, 13]
    assert offsets(aborted=[(8, 2), (7, 0)]) == [5, 6, 7, 12, 13]
    assert offsets(aborted=[(7, 0, 4), (8, 2, 11)]) == [5, 6, 7, 12, 13]
    assert offsets(aborted=[(8, 2, 11)], start_offset=9) == [12, 13]
    assert offsets(aborted=[(7, 0)], start_offset=5) == [5, 6, 7, 9, 10, 12, 13]


# --- damage


def test_damage_is_raised_by_the_read_that_meets_it_first():
    good, bad = numbered(0, 5), bytearray(numbered(5, 5))
    bad[-1] ^= 1
    reader = ColumnReader(("offset", "value"))
    columns = reader.read(good + bytes(bad))
    assert (len(columns), columns.next_offset, columns.next_position) == (5, 5, len(good))
    with pytest.raises(CorruptRecordError, match="offset 5: the CRC"):
        reader.read(good + bytes(bad), position=columns.next_position)
    assert len(reader.read(good + good[:70])) == 5
    assert len(reader.read(good[:70])) == 0
    with pytest.raises(CorruptRecordError, match="magic"):
        reader.read(good[:MAGIC_AT] + b"\1" + good[CRC_AT:])


def test_malformed_records_leave_the_columns_whole():
    good = numbered(0, 5)
    for at in range(61, len(good)):
        damaged = bytearray(numbered(5, 5))
        damaged[at] ^= 0xFF
        try:
            expected = by_records(good + bytes(damaged), check_crc=False)
        except CorruptRecordError:
            expected = by_records(good)
        assert rows(read_columns(good + bytes(damaged), columns=COLUMNS, check_crc=False)) == expected


def test_every_cut_is_quiet():
    whole = numbered(0, 3, codec="none") + numbered(3, 3, codec="zstd")
    first = len(numbered(0, 3))
    for cut in range(len(whole)):
        assert len(read_columns(whole[:cut])) == (3 if cut >= first else 0)


def test_limits_of_decompression():
    bomb = build([(None, bytes(1_000_000), (), 0)], codec="zstd", base_offset=5)
    with pytest.raises(MessageTooLargeError):
        read_columns(bomb, max_bytes=10_000)
    columns = read_columns(numbered(0, 2) + bomb, max_bytes=10_000)
    assert (len(columns), columns.next_offset) == (2, 2)


def test_hostile_counts_do_not_allocate():
    batch = bytearray(numbered(0, 1))
    batch[LAST_OFFSET_DELTA_AT:BASE_TIMESTAMP_AT] = batch[RECORD_COUNT_AT:HEADER_BYTES] = (2**31 - 2).to_bytes(4, "big")
    with pytest.raises(CorruptRecordError, match="too few bytes"):
        read_columns(batch, check_crc=False)


def test_bad_arguments():
    data = numbered(0, 1)
    for columns in ((), ("offset", "offset"), ("time",)):
        with pytest.raises(InvalidArgumentError, match="each at most once"):
            ColumnReader(columns)
    with pytest.raises(InvalidArgumentError, match="position 999"):
        ColumnReader().read(data, position=999)
    with pytest.raises(InvalidArgumentError, match="max_records 0"):
        ColumnReader().read(data, max_records=0)
    with pytest.raises(InvalidArgumentError, match="'key' is not among offset"):
        read_columns(data, columns=("offset",)).numpy("key")
    with pytest.raises(TypeError):
        type(read_columns(data))()


# --- memory


def test_numpy_arrays_share_the_memory_and_cannot_be_written():
    source = build([(b"key", None, [("h", b"1"), ("i", None)], 7), (None, b"abc", (), 8)])
    columns = read_columns(source, columns=COLUMNS)
    assert columns.numpy("offset").tolist() == [0, 1]
    assert columns.numpy("timestamp").dtype == "datetime64[ms]"
    assert columns.numpy("timestamp").astype("int64").tolist() == [7, 8]
    assert columns.numpy("timestamp_type").tolist() == [0, 0]
    assert columns.numpy("leader_epoch").tolist() == [3, 3]
    value = columns.numpy("value")
    assert (value.offsets.tolist(), bytes(value.data), value.valid.tolist()) == ([0, 0, 3], b"abc", [False, True])
    headers = columns.numpy("headers")
    assert (headers.starts.tolist(), bytes(headers.keys.data), headers.keys.valid) == ([0, 2, 2], b"hi", None)
    assert headers.values.valid.tolist() == [True, False]
    with pytest.raises(ValueError, match="read-only"):
        columns.numpy("offset")[0] = 1
    address = columns.numpy("offset").__array_interface__["data"][0]
    assert table(columns).column("offset").buffers()[1].address == address
    assert np.shares_memory(columns.numpy("offset"), columns.numpy("offset"))


def test_arrays_outlive_the_columns_and_then_everything_goes():
    gc.collect()
    before = buffer.counters()
    source = numbered(0, 100) + build([(None, None, [("h", b"v")] * 3, 0)], base_offset=100)
    columns = read_columns(source, columns=COLUMNS)
    batch = table(columns)
    offsets = columns.numpy("offset")
    headers = batch.column("headers")
    capsules = columns.__arrow_c_array__()
    del columns, batch
    assert offsets[99] == 99
    assert headers[100].as_py() == [{"key": "h", "value": b"v"}] * 3
    assert buffer.counters()["scratches"] > before["scratches"]
    del offsets, headers, capsules
    gc.collect()
    assert buffer.counters() == before


def test_empty():
    batch = table(read_columns(b"", columns=COLUMNS))
    assert batch.num_rows == 0
    assert read_columns(b"", start_offset=9).next_offset == 9
    assert len(list(walk(b""))) == 0
