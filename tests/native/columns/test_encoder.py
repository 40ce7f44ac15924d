"""Columns to batches: every form of column, against the record iterator and back through the column reader."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_native.base import clock
from kraft_native.base.errors import InvalidArgumentError
from kraft_native.batch.batch import walk
from kraft_native.batch.records import records
from kraft_native.columns.encoder import encode_columns
from kraft_native.columns.reader import read_columns

PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])


def decoded(batches) -> list[tuple]:
    """Return (offset, timestamp, key, value, headers) of the records, and check each batch."""
    data = b"".join(batches)
    assert all(batch.valid for batch in walk(data))
    return [(r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in records(data)]


def values_of(batches) -> list[bytes | None]:
    return [record[3] for record in decoded(batches)]


BYTES = st.none() | st.binary(max_size=40) | st.binary(min_size=100, max_size=300)
ROWS = st.lists(st.tuples(
    BYTES, BYTES, st.integers(-1, 2**52),
    st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=8)), max_size=3)), max_size=30)


@given(ROWS, st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]), st.integers(61, 2000), st.integers(1, 12),
       st.integers(0, 5), st.booleans())
def test_round_trip(rows, codec, batch_bytes_max, batch_records_max, skip, wide):
    """Convert sliced Arrow columns to batches, to records and to columns again."""
    binary, listed = (pa.large_binary(), pa.large_list) if wide else (pa.binary(), pa.list_)
    keys = pa.array([row[0] for row in rows], binary)[skip:]
    values = pa.array([row[1] for row in rows], binary)[skip:]
    times = pa.array([row[2] for row in rows], pa.int64())[skip:]
    headers = pa.array([[{"key": key, "value": value} for key, value in row[3]] for row in rows], listed(PAIR))
    headers = headers[skip:]
    rows = rows[skip:]
    batches = list(encode_columns(values, keys=keys, timestamps=times, headers=headers, codec=codec, base_offset=70,
                                  batch_bytes_max=batch_bytes_max, batch_records_max=batch_records_max))
    expected = [(70 + i, time, key, value, tuple(pairs)) for i, (key, value, time, pairs) in enumerate(rows)]
    assert decoded(batches) == expected
    for batch in walk(b"".join(batches)):
        assert batch.record_count <= batch_records_max
        times = [r.timestamp_ms for r in records(batch)]
        assert (batch.base_timestamp_ms, batch.max_timestamp_ms) == (times[0], max(times))
        if codec == "none" and batch.record_count > 1:
            assert batch.size_in_bytes <= batch_bytes_max
    again = pa.record_batch(read_columns(b"".join(batches)))
    assert again.column("key").to_pylist() == [row[0] for row in rows]
    assert again.column("value").to_pylist() == [row[1] for row in rows]


def test_batches_are_as_full_as_they_may_be():
    values = pa.array([b"x" * 91] * 1000)
    batches = list(encode_columns(values, timestamps=5, batch_bytes_max=1061))
    assert [len(batch) for batch in batches[:-1]] == [61 + 1000] * (len(batches) - 1)
    assert [batch.record_count for batch in walk(b"".join(batches))] == [10] * 100


@pytest.mark.parametrize("column", [
    pa.array(["ab", None, ""]), pa.array(["ab", None, ""], pa.large_string()),
    pa.array([b"ab", None, b""]), pa.array([b"ab", None, b""], pa.large_binary()),
    (np.array([0, 2, 2, 2], "int32"), b"ab", np.array([True, False, True])),
    (np.array([0, 2, 2, 2]), np.frombuffer(b"ab", "uint8"), np.array([True, False, True])),
], ids=lambda column: str(getattr(column, "type", "pair")))
def test_kinds_of_binary_columns(column):
    assert values_of(encode_columns(column)) == [b"ab", None, b""]


def test_fixed_width_columns():
    fixed = pa.array([b"abc", None, b"d\0\0"], pa.binary(3))
    assert values_of(encode_columns(fixed)) == [b"abc", None, b"d\0\0"]
    assert values_of(encode_columns(fixed[1:])) == [None, b"d\0\0"]
    assert values_of(encode_columns(np.array([b"abc", b"", b"d"], "S3"))) == [b"abc", b"", b"d"]
    assert values_of(encode_columns(np.array([b"abc", b"", b"d"], "S3").view("V3"))) == [b"abc", b"\0\0\0", b"d\0\0"]
    assert values_of(encode_columns(np.array([[1, 2], [3, 0]], "uint8"))) == [b"\1\2", b"\3\0"]
    assert values_of(encode_columns(pa.nulls(2))) == [None, None]


def test_numpy_columns_of_a_read_go_straight_back():
    source = b"".join(encode_columns(pa.array([b"a", None, b"ccc"]), keys=pa.array([None, b"k", b""]),
                                     timestamps=9))
    columns = read_columns(source)
    again = encode_columns(columns.numpy("value"), keys=columns.numpy("key"), timestamps=columns.numpy("timestamp"))
    assert b"".join(again) == source


@pytest.mark.parametrize(("times", "expected"), [
    (pa.array([1, 2], pa.timestamp("s")), [1000, 2000]),
    (pa.array([1, 2], pa.timestamp("ms", "UTC")), [1, 2]),
    (pa.array([1999, 2000], pa.timestamp("us")), [1, 2]),
    (pa.array([0, 1999999, 2000000], pa.timestamp("ns"))[1:], [1, 2]),
    (np.array([1, 2], "datetime64[s]"), [1000, 2000]),
    (np.array([1, 2], "datetime64[ms]"), [1, 2]),
    (np.array([1, 0, 2, 0], "datetime64[us]")[::2], [0, 0]),
    (np.array([-1, 2]), [-1, 2]),
    (7, [7, 7]),
])
def test_timestamps(times, expected):
    batches = encode_columns(pa.array([b"", b""]), timestamps=times)
    assert [record[1] for record in decoded(batches)] == expected


def test_now_is_the_default_time():
    clock.simulate(0, 123)
    try:
        assert [record[1] for record in decoded(encode_columns(pa.array([b""])))] == [123]
    finally:
        clock.use_system()


def test_headers_as_map_and_null_lists():
    maps = pa.array([[("a", b"1")], None, []], pa.map_(pa.string(), pa.binary()))
    batches = list(encode_columns(pa.nulls(3), headers=maps, timestamps=0))
    assert [record[4] for record in decoded(batches)] == [(("a", b"1"),), (), ()]


def test_encoder_counts_down():
    encoder = encode_columns(pa.nulls(5), batch_records_max=2, base_offset=10)
    assert (len(encoder), encoder.next_offset) == (5, 10)
    next(encoder)
    assert (len(encoder), encoder.next_offset) == (3, 12)
    assert len(list(encoder)) == 2
    assert (len(encoder), encoder.next_offset, list(encoder)) == (0, 15, [])
    for times in (np.array([], "int64"), pa.array([], pa.timestamp("s")), None):
        assert list(encode_columns(pa.array([], pa.binary()), timestamps=times)) == []


def test_a_large_record_gets_a_batch_of_its_own():
    values = pa.array([b"a", bytes(3_000_000), b"b"])
    batches = list(encode_columns(values, batch_bytes_max=1000))
    assert [batch.record_count for batch in walk(b"".join(batches))] == [1, 1, 1]
    assert values_of(batches) == values.to_pylist()


def test_transactional_flag():
    (batch,) = walk(next(encode_columns(pa.array([b"a"]), transactional=True)))
    assert batch.is_transactional


VALUES = pa.array([b"a", b"b"])


@pytest.mark.parametrize(("arguments", "message"), [
    ({"values": [b"a"]}, "values: an Arrow array"),
    ({"values": pa.array([1, 2])}, "got Arrow type l"),
    ({"values": pa.array([b"a", b"a"]).dictionary_encode()}, "dictionary"),
    ({"values": np.array([1, 2])}, "dtype S or V"),
    ({"values": np.array([b"a", 1], object)}, "dtype S or V"),
    ({"values": np.array([b"a", b"b", b"c"])[::2]}, "contiguous"),
    ({"values": (np.array([0, 3]), b"ab")}, "offset 3 at index 1"),
    ({"values": (np.array([0, 2, 1]), b"ab")}, "offset 1 at index 2"),
    ({"values": (np.array([-1, 2]), b"ab")}, "offset -1 at index 0"),
    ({"values": (np.array([], "int32"), b"")}, "one more than"),
    ({"values": (np.array([0.0, 1.0]), b"a")}, "int32 or int64"),
    ({"values": (np.array([0, 1]), b"a", np.array([True, True]))}, "bool array of 1"),
    ({"values": (b"a",)}, "1 members"),
    ({"values": VALUES, "keys": pa.array([b"a"])}, "keys: 1 rows, but there are 2"),
    ({"values": VALUES, "timestamps": np.array([1])}, "timestamps: 1 rows"),
    ({"values": VALUES, "timestamps": np.array([5, -2])}, "timestamps: -2 at row 1"),
    ({"values": VALUES, "timestamps": np.array([2**60, 0], "datetime64[s]")}, "at row 0"),
    ({"values": VALUES, "timestamps": np.array([1.0, 2.0])}, "got float64"),
    ({"values": VALUES, "timestamps": pa.array([1, None])}, "timestamps: null at index 1"),
    ({"values": VALUES, "timestamps": pa.array(["a", "b"])}, "got Arrow type u"),
    ({"values": VALUES, "timestamps": -2}, "-2 at row 0"),
    ({"values": VALUES, "timestamps": "now"}, "got str"),
    ({"values": VALUES, "headers": pa.array([b"a", b"b"])}, "list or map"),
    ({"values": VALUES, "headers": pa.array([[1], [2]])}, "list or map"),
    ({"values": VALUES, "headers": pa.array([[]], pa.list_(PAIR))}, "headers: 1 rows"),
    ({"values": VALUES, "headers": pa.array([[], [{"key": None, "value": b""}]], pa.list_(PAIR))},
     "header keys: null at index 0"),
    ({"values": VALUES, "headers": pa.array([[], [None]], pa.list_(PAIR))}, "headers: null at index 0"),
    ({"values": VALUES, "batch_bytes_max": 60}, "batch_bytes_max 60"),
    ({"values": VALUES, "batch_records_max": 0}, "batch_records_max 0"),
    ({"values": VALUES, "base_offset": -1}, "base_offset -1"),
    ({"values": VALUES, "codec": "brotli"}, "brotli"),
])
def test_wrong_columns_are_refused_before_the_first_batch(arguments, message):
    with pytest.raises(InvalidArgumentError, match=message):
        encode_columns(**arguments)


def test_foreign_objects_without_capsules():
    class Fake:
        def __arrow_c_array__(self):
            return 1, 2

    with pytest.raises(InvalidArgumentError, match="no Arrow capsules"):
        encode_columns(Fake())
