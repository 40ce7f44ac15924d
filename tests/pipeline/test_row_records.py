"""Rows of files as records: exactly, each on its own; a bad row is reported with its position and reason."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.pipeline import row_files
from kraft.pipeline.ingest import dead_letters
from kraft.pipeline.producing import IngestError
from kraft.pipeline.row_files import BadRow, Rows, read_split, splits_of
from kraft.pipeline.row_records import Columns, Conversion, check_columns, check_types, sort_out, type_of
from kraft_native.base.errors import InvalidArgumentError

PARTITIONS = 4
WHOLE_ROWS = Columns()


def conversion(columns: Columns, types: dict[str, str] | None = None, limit: int = 1_000_000) -> Conversion:
    return Conversion(columns, tuple((types or {}).items()), PARTITIONS, "none", limit)


def convert(path: Path, columns: Columns = WHOLE_ROWS, types: dict[str, str] | None = None, limit: int = 1_000_000,
            chunk_rows: int = 3) -> tuple[list[Any], list[BadRow]]:
    """Return (value, key, time, partition) of the rows of a file, and its bad rows."""
    found, bad = [], []
    for split in splits_of([path], 1):
        for rows in read_split(split, chunk_rows, columns.fields):
            records, wrong = sort_out(rows, conversion(columns, types, limit), 0, 1_000)
            bad += wrong
            keys, times = ([None] * len(records.values) if each is None else each for each in records[1:3])
            times = times if isinstance(times, list) else times.cast(pa.int64()).to_pylist()
            found += list(zip(records.values.to_pylist(), keys if isinstance(keys, list) else keys.to_pylist(), times,
                              records.places.tolist(), strict=True))
    return found, bad


def values(found: list[Any]) -> list[bytes]:
    return [value for value, *_ in found]


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_texts_of_csv_stay_texts(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", b'id,zip,note\n1,01234,NA\n2,12345,\n3,"",nan\n4,1e5,"x\ny"\n')
    found, bad = convert(path, Columns(key="zip"))
    assert values(found) == [b'{"id":"1","zip":"01234","note":"NA"}', b'{"id":"2","zip":"12345","note":null}',
                             b'{"id":"3","zip":"","note":"nan"}', b'{"id":"4","zip":"1e5","note":"x\\ny"}']
    assert [key for _, key, *_ in found] == [b"01234", b"12345", b"", b"1e5"]
    assert bad == []


def test_types_of_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", b"i,f,d,t,b\n7,1e-12,0.10,2024-01-01T00:00:00.000001,true\n,,,,\n")
    types = {"i": "int64", "f": "double", "d": "decimal(20, 2)", "t": "timestamp[us]", "b": "bool"}
    assert values(convert(path, types=types)[0]) == [
        b'{"i":7,"f":1e-12,"d":0.10,"t":"2024-01-01T00:00:00.000001","b":true}',
        b'{"i":null,"f":null,"d":null,"t":null,"b":null}']
    with pytest.raises(InvalidArgumentError, match="not a type of Arrow"):
        type_of("number")
    with pytest.raises(InvalidArgumentError, match="have no effect"):
        check_types([tmp_path / "a.jsonl"], conversion(Columns(), {"i": "int64"}))


def test_lines_of_json_are_written_byte_for_byte(tmp_path: Path) -> None:
    lines = [b'{"id": 9007199254740993, "x": 1e-12, "s":"\\u00e9\\/"}', b' {"id":"01", "x":0.10 , "x":null} ', b"{}"]
    path = write(tmp_path / "a.jsonl", b"\n".join(lines) + b"\r\n\n")
    found, bad = convert(path, Columns(key="id"))
    assert (values(found), bad) == (lines, [])
    assert [key for _, key, *_ in found] == [b"9007199254740993", b"01", None]
    assert convert(path, Columns(value="s"))[0][0][0] == "é/".encode()


def test_times_are_floored_to_milliseconds_whatever_their_form(tmp_path: Path) -> None:
    texts = ["1970-01-01T00:00:00.030", "1970-01-01 01:00:00.0300009+01:00", "30", "1970-01-01T00:00:00.030Z", "-1",
             "1969-12-31T23:59:59.9995"]
    path = write(tmp_path / "a.csv", b"at\n" + "\n".join(texts).encode() + b"\n")
    assert [time for *_, time, _ in convert(path, Columns(timestamp="at"))[0]] == [30, 30, 30, 30, -1, -1]
    table = pa.table({"at": pa.array([-1, 1_999], pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "a.parquet")
    found = convert(tmp_path / "a.parquet", Columns(timestamp="at"))[0]
    assert [time for *_, time, _ in found] == [-1, 1]
    assert values(found)[0] == b'{"at":"1969-12-31T23:59:59.999999"}'


@pytest.mark.parametrize(("name", "content", "columns", "types", "row", "reason"), [
    ("a.csv", b"a,b\n1,2\n3\n4,5\n", Columns(), {}, 3, "1 columns where 2 are expected"),
    ("a.csv", b"a,b\n1,2\n3,\xff\n4,5\n", Columns(), {}, 3, "UTF8"),
    ("a.csv", b"a,b\n1,2\n3,x\n4,5\n", Columns(), {"b": "int64"}, 3, "'x'"),
    ("a.csv", b"a,b\n1,2\n3,x\n4,3\n", Columns(partition="b"), {}, 3, "no number of a partition"),
    ("a.csv", b"a,b\n1,2\n3,4\n4,3\n", Columns(partition="b"), {}, 3, "partitions 0 to 3"),
    ("a.csv", b"a,b\n1,2\n3,\n4,3\n", Columns(partition="b"), {}, 3, "partitions 0 to 3"),
    ("a.csv", b"a,b\n1,2\n3,noon\n4,5\n", Columns(timestamp="b"), {}, 3, "no time"),
    ("a.csv", b"a,b\n1,2\n3,\n4,5\n", Columns(timestamp="b"), {}, 3, "no time"),
    ("a.csv", b"a,b\n1,2\n3," + b"x" * 900 + b"\n4,5\n", Columns(), {}, 3, "max.message.bytes"),
    ("a.jsonl", b'{"a":1}\n{"a":}\n{"a":2}\n', Columns(), {}, 2, "a value is expected, at byte 6"),
    ("a.jsonl", b'{"a":1}\n{"b":1}\n{"a":2}\n', Columns(partition="a"), {}, 2, "partitions 0 to 3"),
])
def test_a_bad_row_is_named_and_the_others_are_records(
    tmp_path: Path, name: str, content: bytes, columns: Columns, types: dict[str, str], row: int, reason: str,
) -> None:
    path = write(tmp_path / name, content)
    check_columns(path, conversion(columns, types))
    for chunk_rows in (1, 2, 100):
        found, [bad] = convert(path, columns, types, 800, chunk_rows)
        assert len(found) == 2
        assert bad.row == row
        assert reason in bad.reason
    letter = json.loads(dead_letters(next(iter_splits(path)), [bad]))
    assert (letter["file"], letter["row"], letter["reason"]) == (str(path), row, bad.reason)
    assert letter.keys() & {"content", "content_base64"}


def iter_splits(path: Path) -> Any:
    from kraft.pipeline.ingest import Split

    return (Split(number, file, 1, 0) for number, file in enumerate(splits_of([path], 1)))


def test_rows_of_parquet_have_their_numbers(tmp_path: Path) -> None:
    pq.write_table(pa.table({"p": [0, 1, 9, 3, -1, 2]}), tmp_path / "a.parquet", row_group_size=2)
    found, bad = convert(tmp_path / "a.parquet", Columns(partition="p"))
    assert [place for *_, place in found] == [0, 1, 3, 2]
    assert [each.row for each in bad] == [3, 5]


@pytest.mark.parametrize(("name", "content", "columns", "text"), [
    ("a.csv", b"", Columns(), "Empty CSV file"), ("a.csv", b"a,a\n1,2\n", Columns(), "several columns are named a"),
    ("a.csv", b"a\n1\n", Columns(key="b"), "column 'b' is not among a"),
    ("a.parquet", b"PAR1", Columns(), "cannot be read"),
    ("a.jsonl", b'{"a":1}\n', Columns(key="b"), "none of the first 1 lines has a field 'b'"),
])
def test_a_file_that_does_not_fit_is_one_error(tmp_path: Path, name: str, content: bytes, columns: Columns,
                                               text: str) -> None:
    with pytest.raises((InvalidArgumentError, IngestError), match=text):
        check_columns(write(tmp_path / name, content), conversion(columns))


def test_a_file_that_is_damaged_during_the_job_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": ["x" * 100] * 100}), path, compression="zstd", use_dictionary=False)
    split, = splits_of([path], 1 << 20)
    content, modified_ns = bytearray(path.read_bytes()), path.stat().st_mtime_ns
    content[4:64] = bytes(60)
    path.write_bytes(content)
    os.utime(path, ns=(modified_ns, modified_ns))
    with pytest.raises(IngestError, match=f"{path}: cannot be read"):
        list(read_split(split, 10))


def test_bytes_are_no_json(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [b"x"], "b": ["y"]}), tmp_path / "a.parquet")
    with pytest.raises(InvalidArgumentError, match="column a: JSON has no form for binary"):
        check_columns(tmp_path / "a.parquet", conversion(Columns()))
    check_columns(tmp_path / "a.parquet", conversion(Columns(value="a", key="b")))


def test_lines_longer_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "BLOCK_BYTES", 16)
    lines = [b'{"a":"%s"}' % (b"x" * size) for size in (1, 40, 3, 100, 0)]
    path = write(tmp_path / "a.jsonl", b"\n".join(lines))
    assert values(convert(path)[0]) == lines
    monkeypatch.setattr(row_files, "LINE_BYTES_MAX", 50)
    with pytest.raises(IngestError, match="a line of more than 50 bytes"):
        convert(path)


CELLS = st.none() | st.text(max_size=4) | st.sampled_from(["01", "1", "1e5", "x", "2024-01-01T00:00:00Z"])


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=12))
def test_a_row_does_not_depend_on_its_neighbours(cells: list[tuple[str | None, ...]]) -> None:
    columns = [pa.array([None if row[at] is None else row[at].encode(errors="replace") for row in cells], pa.binary())
               for at in range(3)]
    batch = pa.RecordBatch.from_arrays(columns, ["k", "t", "v"])
    wanted = conversion(Columns(key="k", timestamp="t"), {"v": "int64"})

    def outcome(start: int, count: int) -> tuple[list[Any], list[Any]]:
        numbers = np.arange(start, start + count)
        records, bad = sort_out(Rows(batch.slice(start, count), None, numbers), wanted, 0, 1_000)
        keys = [] if records.keys is None else records.keys.to_pylist()
        return list(zip(records.values.to_pylist(), keys, records.places.tolist(), strict=True)), [
            (each.row, each.content) for each in bad]

    alone = [outcome(at, 1) for at in range(len(cells))]
    assert outcome(0, len(cells)) == ([row for rows, _ in alone for row in rows],
                                      [row for _, rows in alone for row in rows])
