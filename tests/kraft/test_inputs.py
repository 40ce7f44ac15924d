"""Records and columns that a log accepts, and its errors for the rest."""

import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kraft import BatchBuilder, Log, errors
from kraft_native.batch.batch import first_batch
from kraft_native.batch.records import records

NOW_MS = 1_700_000_000_000


@pytest.fixture
def log(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Log]:
    with Log(tmp_path / "log") as made:
        yield made
    del request.node.funcargs["log"]      # a closed log still has its buffers


def stored(log: Log) -> list[tuple[Any, ...]]:
    return [(each.value, each.key, each.headers) for each in log]


def test_records_of_every_form(log: Log) -> None:
    log.append_record(b"0", headers={"a": b"1", "b": None})
    first = next(iter(log))
    log.append_records([b"1", bytearray(b"2"), memoryview(b"3"), (b"4",), (b"5", b"k"), (b"6", b"k", NOW_MS),
                        (b"7", b"k", NOW_MS, {"a": b"1"}), (b"8", b"k", None, [("a", b"1")]), (None, b"k"), first])
    assert stored(log) == [
        (b"0", None, (("a", b"1"), ("b", None))), (b"1", None, ()), (b"2", None, ()), (b"3", None, ()),
        (b"4", None, ()),
        (b"5", b"k", ()), (b"6", b"k", ()), (b"7", b"k", (("a", b"1"),)), (b"8", b"k", (("a", b"1"),)),
        (None, b"k", ()), (b"0", None, (("a", b"1"), ("b", None)))]


@pytest.mark.parametrize(("record", "says"), [
    ("text", "records: 'text' is no record: it is a value in bytes, a tuple"), (5, "5 is no record"),
    (None, "None is no record"), ((), "a tuple of 0 is no record"), ((b"a",) * 5, "a tuple of 5 is no record"),
    (("a",), "value: bytes-like or None expected, got str"), ((b"a", 5), "key: bytes-like or None expected, got int"),
    ((b"a", None, None, 5), "headers: 5 is no mapping, and no"),
    ((b"a", None, None, ["a"]), "headers: .*is no mapping"),
    ((b"a", None, None, {"a": 1}), "header value: bytes-like expected, got int"),
])
def test_other_records_are_refused(log: Log, record: Any, says: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=says):
        log.append_records([b"before", record])
    assert stored(log) == []


@pytest.mark.parametrize("headers", [5, ["a"], [("a", b"b", b"c")], [5]])
def test_other_headers_are_refused(log: Log, headers: Any) -> None:
    for append in (log.append_record, BatchBuilder().append):
        with pytest.raises(errors.InvalidArgumentError, match="headers: "):
            append(b"a", headers=headers)


def test_no_time_is_now(log: Log) -> None:
    before = time.time_ns() // 1_000_000
    builder = BatchBuilder()
    builder.append(b"v")
    builder.append(b"none", timestamp_ms=-1)
    log.append_records([(b"x", None, None, ()), b"y", (b"w",)])
    log.append_record(b"z")
    after = time.time_ns() // 1_000_000
    found = list(records(first_batch(builder.build())))
    assert before <= found[0].timestamp_ms <= after
    assert found[1].timestamp_ms == -1
    assert all(before <= each.timestamp_ms <= after for each in log)
    assert log.offset_for_time(before) is not None


@pytest.mark.parametrize("wrong", [1.5, 1_795_702_933.5, True, "5", np.float64(NOW_MS), b"1"])
def test_a_time_is_a_whole_number(log: Log, wrong: Any) -> None:
    for append in (log.append_record, BatchBuilder().append):
        with pytest.raises(TypeError, match="not a whole number of milliseconds since 1970"):
            append(b"a", timestamp_ms=wrong)
    with pytest.raises(TypeError, match="timestamp_ms"):
        log.append_records([(b"a", None, wrong)])
    assert stored(log) == []


def test_whole_numbers_of_numpy_are_times(log: Log) -> None:
    log.append_record(b"a", timestamp_ms=np.int64(NOW_MS))
    assert next(iter(log)).timestamp_ms == NOW_MS


@pytest.mark.parametrize("append", [
    lambda log, time_ms: log.append_record(b"a", timestamp_ms=time_ms),
    lambda log, time_ms: log.append_records([(b"a", None, time_ms)] * 3),
    lambda log, time_ms: log.append_columns([b"a", b"b"], timestamps=np.array([time_ms, time_ms])),
], ids=["record", "records", "columns"])
def test_a_time_before_2000_is_warned_of(log: Log, append: Any) -> None:
    with pytest.warns(errors.TimestampWarning, match="before the year 2000; is it in seconds") as caught:
        append(log, int(1_795_702_933.5))
    assert [Path(each.filename).name for each in caught] == ["test_inputs.py"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        append(log, 946_684_800_000)


def test_columns_of_pandas_and_lists(log: Log) -> None:
    pandas = pytest.importorskip("pandas")
    log.append_columns(pandas.Series([b"a", None, b"c"]), keys=pandas.Series(["x", "y", "z"]),
                       timestamps=pandas.Series(pandas.to_datetime([NOW_MS] * 3, unit="ms")))
    log.append_columns([b"d", None], keys=pa.chunked_array([[b"1"], [b"2"]]))
    assert [row[:2] for row in stored(log)] == [(b"a", b"x"), (None, b"y"), (b"c", b"z"), (b"d", b"1"), (None, b"2")]
    assert next(iter(log)).timestamp_ms == NOW_MS


@pytest.mark.parametrize("values", [[b"a", 5], [1, 2], {"a": 1}, "text", object()])
def test_other_columns_are_refused(log: Log, values: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError):
        log.append_columns(values)
    assert stored(log) == []
