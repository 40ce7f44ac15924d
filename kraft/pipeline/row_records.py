"""Rows of files as columns of records: each row independent of the others, or with the reason of its refusal."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kraft.pipeline.row_files import KINDS, BadRow, Rows, read_split, schema_of, splits_of
from kraft.pipeline.row_json import check_kinds, lines_of
from kraft_native.base.errors import InvalidArgumentError, KraftError
from kraft_native.base.murmur import murmur2_partitions
from kraft_native.columns.encoder import encode_columns

# Maximum of bytes in a batch of one record besides key and value.
OVERHEAD_BYTES: Final = 128
SAMPLE_ROWS: Final = 10_000
INTEGER: Final = r"^-?\d{1,18}$"
# A text of ISO 8601 whose time of the day has a zone.
ZONED: Final = r"\d{2}:\d{2}.*(Z|[+-]\d{2}(:?\d{2})?)$"
DECIMAL: Final = re.compile(r"decimal(?:128)?\((\d+), *(\d+)\)")


class Columns(NamedTuple):
    """Columns that make a record. `value`: "" for the whole row as JSON. The others: "" for none."""

    value: str = ""
    key: str = ""
    timestamp: str = ""
    partition: str = ""

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the columns, each once."""
        return tuple(dict.fromkeys(name for name in self if name))


class Conversion(NamedTuple):
    """Conversion of rows to records. `types`: of columns, by name. `record_bytes_max`: the limit for a batch of one
    record."""

    columns: Columns
    types: tuple[tuple[str, str], ...]
    partitions: int
    codec: str
    record_bytes_max: int


class Records(NamedTuple):
    """Columns of records, and the partition of each."""

    values: pa.Array
    keys: pa.Array | None
    times: pa.Array | None
    places: npt.NDArray[np.int32]


def type_of(text: str) -> pa.DataType:
    """Return a type by its name in Arrow, or `decimal(precision, scale)`. `InvalidArgumentError` for another text."""
    try:
        if found := DECIMAL.fullmatch(text):
            return pa.decimal128(int(found[1]), int(found[2]))
        return pa.type_for_alias(text)
    except ValueError as error:
        raise InvalidArgumentError(f"type {text!r}: not a type of Arrow such as int64, double, string, bool, date32, "
                                   f"timestamp[us] or decimal(20, 2)") from error


def check_types(files: Sequence[Path], conversion: Conversion) -> None:
    """Refuse unknown types, and types that have no effect, with `InvalidArgumentError`."""
    for _, kind in conversion.types:
        type_of(kind)
    if conversion.types and all(KINDS[file.suffix] == "json" for file in files):
        raise InvalidArgumentError("lines of JSON files are written as they are: types of columns have no effect")


def check_columns(file: Path, conversion: Conversion) -> None:
    """Check the columns of a file. `InvalidArgumentError` when it lacks them, or has columns without a JSON form;
    `KraftError` when it cannot be read. Of a JSON file some lines are read."""
    kinds = {name: type_of(kind) for name, kind in conversion.types}
    wanted = dict.fromkeys([*conversion.columns.fields, *kinds])
    schema = schema_of(file)
    if schema is None:
        _check_fields(file, conversion.columns.fields)
        return
    for name in wanted:
        if name not in schema.names:
            raise InvalidArgumentError(f"{file}: column {name!r} is not among {', '.join(schema.names)}")
    if not conversion.columns.value:
        fields = [pa.field(each.name, kinds.get(each.name, pa.string() if file.suffix == ".csv" else each.type))
                  for each in schema]
        check_kinds(pa.schema(fields), [name for name in schema.names if name != conversion.columns.partition])


def _check_fields(file: Path, fields: tuple[str, ...]) -> None:
    split = next(splits_of([file], 1))
    for rows in islice(read_split(split, SAMPLE_ROWS, fields), 1):
        for name in fields:
            if len(rows.batch) and rows.batch[name].null_count == len(rows.batch):
                raise InvalidArgumentError(f"{file}: none of the first {len(rows.batch):,} lines has a field {name!r}")


def sort_out(rows: Rows, conversion: Conversion, unkeyed: int, limit: int) -> tuple[Records, list[BadRow]]:
    """Return records of the rows, and the first `limit` rows that cannot become records, with their reasons.

    Rows without a key all go to partition `unkeyed` modulo the number of partitions, like a batch of a sticky producer.
    """
    bad = list(rows.bad[:limit])
    found: list[Records] = []
    due = [rows]
    while due and len(bad) < max(limit, 1):
        part = due.pop()
        try:
            found.append(convert(part, conversion, unkeyed))
        except (KraftError, pa.ArrowException) as error:
            count = len(part.numbers)
            if count == 1:
                bad.append(BadRow(int(part.numbers[0]), str(error), _content(part)))
            else:
                due += [part.slice(count // 2, count - count // 2), part.slice(0, count // 2)]
    return _joined(found), sorted(bad)


def _joined(parts: list[Records]) -> Records:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Records(pa.array([], pa.binary()), None, None, np.empty(0, np.int32))
    values, keys, times = (None if parts[0][at] is None else pa.concat_arrays([part[at] for part in parts])
                           for at in range(3))
    return Records(values, keys, times, np.concatenate([part.places for part in parts]))


def _content(row: Rows) -> bytes:
    if row.lines is not None:
        return bytes(row.lines[0].as_py())
    shown = {name: value.decode(errors="backslashreplace") if isinstance(value, bytes) else value
             for name, value in row.batch.to_pylist()[0].items()}
    return json.dumps(shown, ensure_ascii=False, default=str).encode()


def convert(rows: Rows, conversion: Conversion, unkeyed: int) -> Records:
    """Return records of the rows. `InvalidArgumentError` or an error of Arrow describes the fault of some of them."""
    columns = conversion.columns
    batch = _typed(rows, dict(conversion.types))
    if columns.value:
        values = as_bytes(batch[columns.value], columns.value)
    elif rows.lines is not None:
        values = rows.lines
    else:
        values = lines_of(batch, [name for name in batch.schema.names if name != columns.partition])
    keys = as_bytes(batch[columns.key], columns.key) if columns.key else None
    times = times_of(batch[columns.timestamp], columns.timestamp) if columns.timestamp else None
    records = Records(values, keys, times, _places(batch, len(rows.numbers), keys, conversion, unkeyed))
    _check_sizes(records, conversion)
    return records


def _typed(rows: Rows, kinds: dict[str, str]) -> pa.RecordBatch:
    """Return the columns in the requested types; texts of CSV and JSON, which come as bytes, as texts."""
    batch = rows.batch
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        kind = type_of(kinds[name]) if name in kinds else None
        if kind is not None and pa.types.is_timestamp(kind) and not pa.types.is_timestamp(column.type):
            columns.append(_parsed(column.cast(pa.string()), kind))
        elif kind is not None:
            text = column.cast(pa.string()) if pa.types.is_binary(column.type) else column
            columns.append(text.cast(kind))
        elif pa.types.is_binary(column.type) and rows.textual:
            columns.append(column.cast(pa.string()))
        else:
            columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _check_sizes(records: Records, conversion: Conversion) -> None:
    """Refuse a record that the topic would refuse, in a batch of its own and compressed."""
    sizes = pc.coalesce(pc.binary_length(records.values), 0)
    if records.keys is not None:
        sizes = pc.add(sizes, pc.coalesce(pc.binary_length(records.keys), 0))
    limit = conversion.record_bytes_max
    for at in np.flatnonzero(np.asarray(sizes) + OVERHEAD_BYTES > limit):
        row = slice(int(at), int(at) + 1)
        batch = next(encode_columns(records.values[row], keys=None if records.keys is None else records.keys[row],
                                    codec=conversion.codec))
        if len(batch) > limit:
            raise InvalidArgumentError(f"a batch of {len(batch):,} bytes, and the topic accepts {limit:,} "
                                       "(max.message.bytes)")


def times_of(column: pa.Array, name: str) -> pa.Array:
    """Return milliseconds: of times, of texts in ISO 8601, or of numbers as they are."""
    kind = column.type
    try:
        if pa.types.is_integer(kind):
            found = column.cast(pa.int64())
        elif pa.types.is_timestamp(kind):
            found = _milliseconds(column)
        elif pa.types.is_date(kind):
            found = column.cast(pa.timestamp("ms")).cast(pa.int64())
        else:
            texts = column.cast(pa.string())
            numbers = pc.match_substring_regex(texts, INTEGER)
            found = pc.if_else(numbers, pc.if_else(numbers, texts, None).cast(pa.int64()),
                               _milliseconds(_parsed(pc.if_else(numbers, None, texts), pa.timestamp("us", "UTC"))))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgumentError(f"column {name}: {kind} is no time: {error}") from error
    if found.null_count:
        raise InvalidArgumentError(f"column {name}: no time")
    return found.cast(pa.timestamp("ms"))


def _milliseconds(times: pa.Array) -> pa.Array:
    """Return the millisecond that each time lies in, also before 1970."""
    floors = pc.floor_temporal(times, unit="millisecond")
    return floors.cast(pa.timestamp("ms", times.type.tz)).cast(pa.int64())


def _parsed(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return texts of ISO 8601 as times; those without a zone are UTC. Digits beyond the unit of `kind` are refused,
    except for microseconds, where nanoseconds are cut."""
    zoned = pc.match_substring_regex(texts, ZONED)
    unit = kind.unit
    try:
        return _parsed_as(texts, zoned, unit).cast(kind)
    except pa.ArrowInvalid:
        if unit != "us":
            raise
        return _parsed_as(texts, zoned, "ns").cast(kind, safe=False)


def _parsed_as(texts: pa.Array, zoned: pa.Array, unit: str) -> pa.Array:
    aware = pc.if_else(zoned, texts, None).cast(pa.timestamp(unit, "UTC"))
    plain = pc.if_else(zoned, None, texts).cast(pa.timestamp(unit)).cast(pa.int64()).cast(pa.timestamp(unit, "UTC"))
    return pc.if_else(pc.fill_null(zoned, False), aware, plain)


def as_bytes(column: pa.Array, name: str) -> pa.Array:
    """Return texts as UTF-8, numbers as their texts, bytes as they are."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        if pa.types.is_large_binary(column.type) or pa.types.is_binary(column.type):
            return column.cast(pa.binary())
        return column.cast(pa.string()).cast(pa.binary())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgumentError(f"column {name}: {column.type} is no key or value: {error}") from error


def _places(batch: pa.RecordBatch, rows: int, keys: pa.Array | None, conversion: Conversion,
            unkeyed: int) -> npt.NDArray[np.int32]:
    """Return the partition of each row: of its column, else by its key like Kafka's default partitioner. Rows without a
    key all go to partition `unkeyed` modulo `count`."""
    name, count = conversion.columns.partition, conversion.partitions
    if name:
        return _named_places(batch[name], name, count)
    places = np.full(rows, unkeyed % count, np.int32)
    if keys is not None:
        _, offsets, data = keys.buffers()
        starts = np.frombuffer(offsets, np.int32)[keys.offset:keys.offset + len(keys) + 1]
        hashed = np.empty(rows, np.int32)
        murmur2_partitions(starts.data, np.frombuffer(data or b"", np.uint8).data, count, hashed.data)
        places = np.where(keys.is_valid().to_numpy(zero_copy_only=False), hashed, places).astype(np.int32)
    return places


def _named_places(column: pa.Array, name: str, count: int) -> npt.NDArray[np.int32]:
    try:
        given = column.cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgumentError(f"column {name}: {column.type} is no number of a partition: {error}") from error
    limits = pc.min_max(given).as_py()
    if given.null_count or (len(given) and not 0 <= limits["min"] <= limits["max"] < count):
        wrong = limits["min"] if limits["min"] == limits["max"] else f"{limits['min']} to {limits['max']}"
        raise InvalidArgumentError(f"column {name}: {wrong}, and the topic has partitions 0 to {count - 1}")
    return np.asarray(given.cast(pa.int32()))
