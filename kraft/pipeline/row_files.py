"""Files of rows (Parquet, CSV or lines of JSON), cut into splits that can be read alone, always in the same chunks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from kraft.pipeline.producing import IngestError
from kraft_native.base.errors import InvalidArgumentError
from kraft_native.columns.json_lines import FIELD_ABSENT, FIELD_OTHER, REASONS, gather, scan_lines

KINDS: Final = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
BLOCK_BYTES: Final = 16 << 20
LINE_BYTES_MAX: Final = 1 << 30
HEADER_ROWS: Final = 1

Numbers = npt.NDArray[np.int64]


class BadRow(NamedTuple):
    """A row that cannot become a record. `row`: its number in the file from 1, including the header of CSV."""

    row: int
    reason: str
    content: bytes


class Rows(NamedTuple):
    """Rows of a file and their numbers. `lines`: the unchanged rows of a JSON file. `bad`: further rows that are
    invalid. `textual`: the columns' bytes are unchecked texts."""

    batch: pa.RecordBatch
    lines: pa.Array | None
    numbers: Numbers
    bad: tuple[BadRow, ...] = ()
    textual: bool = True

    def slice(self, start: int, count: int) -> Rows:
        """Return some of the rows, without the bad ones."""
        lines = None if self.lines is None else self.lines.slice(start, count)
        return Rows(self.batch.slice(start, count), lines, self.numbers[start:start + count],
                    textual=self.textual)


class FileSplit(NamedTuple):
    """A file, or some row groups of a Parquet file. Size and time show whether it is still the same."""

    path: str
    kind: str
    groups: tuple[int, ...]
    size_bytes: int
    file_bytes: int
    modified_ns: int


def files_in(paths: Sequence[Path]) -> list[Path]:
    """Return the files themselves, and those below directories, by name. Private ones (`_x`, `.x`) are omitted.

    `InvalidArgumentError` for a name without a known suffix.
    """
    found: list[Path] = []
    for path in paths:
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        found += [each for each in inside if each.is_file() and not any(
            part.startswith(("_", ".")) for part in each.relative_to(path).parts)]
    for each in found:
        if each.suffix not in KINDS:
            raise InvalidArgumentError(f"{each}: not one of {', '.join(KINDS)}")
    return found


def splits_of(files: Sequence[Path], split_bytes: int) -> Iterator[FileSplit]:
    """Yield Parquet files in runs of row groups of about `split_bytes`, the others whole."""
    for path in files:
        facts = path.stat()
        kind = KINDS[path.suffix]
        if kind != "parquet":
            yield FileSplit(os.fspath(path), kind, (), facts.st_size, facts.st_size, facts.st_mtime_ns)
            continue
        try:
            metadata = pq.read_metadata(path)
        except (pa.ArrowException, OSError) as error:
            raise InvalidArgumentError(f"{path}: cannot be read: {error}") from error
        groups: list[int] = []
        size = 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            groups.append(number)
            size += sum(group.column(column).total_compressed_size for column in range(group.num_columns))
            if size >= split_bytes or number == metadata.num_row_groups - 1:
                yield FileSplit(os.fspath(path), kind, tuple(groups), size, facts.st_size, facts.st_mtime_ns)
                groups, size = [], 0


def schema_of(path: Path) -> pa.Schema | None:
    """Return the columns of the file; None for JSON, whose lines have different fields. `InvalidArgumentError` for a
    file that cannot be read, or has two columns of one name."""
    kind = KINDS[path.suffix]
    if kind == "json":
        return None
    try:
        if kind == "parquet":
            schema = pq.read_schema(path)
        else:
            parse = pyarrow.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda _: "skip")
            with _open_csv(os.fspath(path), None, parse) as found:
                schema = pa.schema([(name, pa.binary()) for name in found.schema.names])
    except (pa.ArrowException, OSError) as error:
        raise InvalidArgumentError(f"{path}: cannot be read: {error}") from error
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise InvalidArgumentError(f"{path}: several columns are named {', '.join(twice)}")
    return schema


def read_split(split: FileSplit, chunk_rows: int, fields: tuple[str, ...] = ()) -> Iterator[Rows]:
    """Yield the rows in chunks that are the same at every reading, with the file's types. The columns of CSV are bytes;
    of a line of JSON only the `fields` are read. `IngestError` when the file changed, or cannot be read."""
    facts = os.stat(split.path)
    if (facts.st_size, facts.st_mtime_ns) != (split.file_bytes, split.modified_ns):
        raise IngestError(f"{split.path}: changed since the job began")
    readers = {"parquet": _read_parquet, "csv": _read_csv, "json": _read_json}
    try:
        yield from readers[split.kind](split, chunk_rows, fields)
    except (pa.ArrowException, OSError) as error:
        raise IngestError(f"{split.path}: cannot be read: {error}") from error


def _read_parquet(split: FileSplit, chunk_rows: int, _fields: tuple[str, ...]) -> Iterator[Rows]:
    with pq.ParquetFile(split.path) as file:
        number = 1 + sum(file.metadata.row_group(group).num_rows for group in range(min(split.groups, default=0)))
        for batch in file.iter_batches(chunk_rows, row_groups=list(split.groups)):
            yield Rows(batch, None, np.arange(number, number + len(batch)), textual=False)
            number += len(batch)


def _read_csv(split: FileSplit, chunk_rows: int, _fields: tuple[str, ...]) -> Iterator[Rows]:
    """Yield the rows of a CSV file. An empty text without quotes is null. A row with another number of columns is
    bad."""
    bad: list[BadRow] = []
    goods: list[int] = []     # number of good rows before each of them

    def refuse(row: pyarrow.csv.InvalidRow) -> str:
        goods.append(row.number - HEADER_ROWS - 1 - len(bad))
        bad.append(BadRow(row.number, f"{row.actual_columns} columns where {row.expected_columns} are expected",
                          row.text.encode()))
        return "skip"

    convert = pyarrow.csv.ConvertOptions(
        null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False,
        column_types=dict.fromkeys((schema_of(Path(split.path)) or pa.schema([])).names, pa.binary()))
    at = reported = 0
    with _open_csv(split.path, convert, pyarrow.csv.ParseOptions(
            newlines_in_values=True, invalid_row_handler=refuse)) as found:
        for batch in found:
            for start in range(0, len(batch), chunk_rows):
                chunk = batch.slice(start, chunk_rows)
                indexes = np.arange(at, at + len(chunk))
                numbers = indexes + HEADER_ROWS + 1 + np.searchsorted(goods, indexes, side="right")
                yield Rows(chunk, None, numbers, tuple(bad[reported:]))
                at, reported = at + len(chunk), len(bad)
    if reported < len(bad):
        yield Rows(pa.RecordBatch.from_arrays([], names=[]), None, np.empty(0, np.int64), tuple(bad[reported:]))


def _open_csv(path: str, convert: pyarrow.csv.ConvertOptions | None,
              parse: pyarrow.csv.ParseOptions) -> pyarrow.csv.CSVStreamingReader:
    options = pyarrow.csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False)
    return pyarrow.csv.open_csv(path, options, parse, convert)


def _read_json(split: FileSplit, chunk_rows: int, fields: tuple[str, ...]) -> Iterator[Rows]:
    """Yield lines of JSON objects: the unchanged lines, and the texts of some of their fields."""
    names = tuple(name.encode() for name in fields)
    number = 1
    for block in _blocks_of_lines(split.path):
        room = block.count(b"\n") + 1
        lines = np.empty((room, 5), np.int64)
        places = np.empty((room, len(names), 3), np.int64)
        count, seen = scan_lines(block, names, lines, places)
        lines, places = lines[:count], places[:count]
        sound = lines[:, 3] == 0
        bad = tuple(BadRow(number + int(each[2]), f"{REASONS[each[3]]}, at byte {each[4] - each[0] + 1} of the line",
                           block[each[0]:each[1]]) for each in lines[~sound])
        lines, places = lines[sound], places[sound]
        for start in range(0, max(len(lines), 1), chunk_rows):
            part, found = lines[start:start + chunk_rows], places[start:start + chunk_rows]
            kinds = np.full(len(part), FIELD_OTHER, np.int64)
            columns = [_gathered(block, found[:, each, 0], found[:, each, 1], found[:, each, 2])
                       for each in range(len(names))]
            yield Rows(pa.RecordBatch.from_arrays(columns, names=list(fields)),
                       _gathered(block, part[:, 0], part[:, 1], kinds), part[:, 2] + number, bad if start == 0 else ())
        number += seen


def _gathered(block: bytes, starts: Numbers, ends: Numbers, kinds: Numbers) -> pa.Array:
    """Return pieces of the block as an array of bytes, null where a field is absent."""
    offsets = np.empty(len(starts) + 1, np.int32)
    data = gather(block, starts, ends, kinds, offsets)
    present = pa.array(kinds != FIELD_ABSENT)
    validity = present.buffers()[1]
    return pa.Array.from_buffers(pa.binary(), len(starts), [validity, pa.py_buffer(offsets), pa.py_buffer(data)])


def _blocks_of_lines(path: str) -> Iterator[bytes]:
    """Yield the file in blocks that end with a line, always the same ones."""
    rest = b""
    with open(path, "rb") as file:
        while data := file.read(BLOCK_BYTES):
            end = data.rfind(b"\n") + 1
            if end:
                yield rest + data[:end]
                rest = data[end:]
            else:
                rest += data
                if len(rest) > LINE_BYTES_MAX:
                    raise IngestError(f"{path}: a line of more than {LINE_BYTES_MAX} bytes")
    if rest:
        yield rest
