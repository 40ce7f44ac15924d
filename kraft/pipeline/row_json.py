"""Rows of Arrow columns as lines of JSON, column by column: every value is exact and independent of other rows.

    integers, decimals     a JSON number with all digits          floats    the shortest that reads as the same float
    NaN, infinities        the texts "NaN", "Infinity", ...       texts     UTF-8, escaped only where JSON requires it
    times, dates           ISO 8601, all digits of their unit;    nulls     null
                           "Z" where the column has a zone
    durations              a number, in the column's unit         lists, structs, maps   arrays and objects

Bytes are not text: a column of them is refused, and must be a record's key or value itself.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kraft_native.base.errors import InvalidArgumentError

# Years that ISO 8601 writes with four digits.
SECONDS_MIN: Final = -62_135_596_800
SECONDS_MAX: Final = 253_402_300_799
PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%S"
NULL: Final = "null"


def lines_of(rows: pa.RecordBatch, names: list[str]) -> pa.Array:
    """Return one object for each row, with these columns. `InvalidArgumentError` names a column without a JSON form."""
    return _object([(name, rows[name]) for name in names], len(rows), "").cast(pa.binary())


def check_kinds(schema: pa.Schema, names: list[str]) -> None:
    """Check that all columns have a JSON form; `InvalidArgumentError` names one that has none."""
    empty = schema.empty_table().combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema)]
    lines_of(empty[0], names)


def _object(fields: list[tuple[str, pa.Array]], count: int, path: str) -> pa.Array:
    parts: list[Any] = []
    for at, (name, column) in enumerate(fields):
        parts += [("," if at else "{") + json.dumps(name, ensure_ascii=False) + ":", _texts(column, path + name)]
    if not fields:
        return pa.repeat(pa.scalar("{}", pa.string()), count)
    return pc.binary_join_element_wise(*parts, "}", "")


def _texts(column: pa.Array, name: str) -> pa.Array:
    """Return the JSON text of each value, never null."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _texts(column.storage, name)
    if pa.types.is_null(kind):
        return pa.repeat(pa.scalar(NULL, pa.string()), len(column))
    if pa.types.is_dictionary(kind):
        return _texts(column.dictionary_decode(), name)
    if pa.types.is_run_end_encoded(kind):
        return _texts(pc.run_end_decode(column), name)
    if pa.types.is_nested(kind):
        texts = _nested(column, name)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        texts = quoted(column.cast(pa.string()))
    else:
        texts = _scalars(column, name)
    return pc.if_else(column.is_valid(), texts, NULL)


def _scalars(column: pa.Array, name: str) -> pa.Array:
    kind = column.type
    if pa.types.is_floating(kind):
        return _floats(column)
    if pa.types.is_timestamp(kind):
        return _timestamps(column, name)
    if pa.types.is_duration(kind):
        return column.cast(pa.int64()).cast(pa.string())
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return pc.binary_join_element_wise('"', column.cast(pa.string()), '"', "")
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.string())
    raise InvalidArgumentError(f"column {name}: JSON has no form for {kind}; leave the column out, or name it as the "
                               "value or key")


def _floats(column: pa.Array) -> pa.Array:
    texts = pc.replace_substring_regex(column.cast(pa.string()), r"^(-?\d+)$", r"\1.0")
    if pc.all(pc.is_finite(column)).as_py() in (True, None):
        return texts
    for found, wanted in (("nan", '"NaN"'), ("-nan", '"NaN"'), ("inf", '"Infinity"'), ("-inf", '"-Infinity"')):
        texts = pc.if_else(pc.equal(texts, found), wanted, texts)
    return texts


def _timestamps(column: pa.Array, name: str) -> pa.Array:
    kind = column.type
    zoned = kind.tz is not None
    limits = pc.min_max(column.cast(pa.int64())).as_py()
    if limits["min"] is not None and not (SECONDS_MIN <= limits["min"] // PER_SECOND[kind.unit] <= SECONDS_MAX
                                          and SECONDS_MIN <= limits["max"] // PER_SECOND[kind.unit] <= SECONDS_MAX):
        raise InvalidArgumentError(f"column {name}: a time before the year 1 or after 9999")
    plain = column.cast(pa.timestamp(kind.unit, "UTC")) if zoned else column
    return pc.binary_join_element_wise('"', pc.strftime(plain, format=TIME_FORMAT), 'Z"' if zoned else '"', "")


def _nested(column: pa.Array, name: str) -> pa.Array:
    kind = column.type
    if pa.types.is_struct(kind):
        fields = [(kind.field(at).name, pc.struct_field(column, at)) for at in range(kind.num_fields)]
        return _object(fields, len(column), f"{name}.")
    if pa.types.is_map(kind):
        keys, items = column.keys, column.items
        texts = keys.cast(pa.string()) if not pa.types.is_string(keys.type) else keys
        entries = pc.binary_join_element_wise(quoted(texts), ":", _texts(items, name), "")
        return _joined(entries, column.offsets, "{", "}")
    if pa.types.is_fixed_size_list(kind):
        column = column.cast(pa.list_(kind.value_type))
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        raise InvalidArgumentError(f"column {name}: JSON has no form for {kind}")
    return _joined(_texts(column.values, f"{name}[]"), column.offsets, "[", "]")


def _joined(entries: pa.Array, offsets: pa.Array, start: str, end: str) -> pa.Array:
    lists = pa.ListArray.from_arrays(offsets.cast(pa.int32()), entries)
    return pc.binary_join_element_wise(start, pc.binary_join(lists, ","), end, "")


def quoted(texts: pa.Array) -> pa.Array:
    """Return texts in quotes, with escapes where JSON requires them."""
    if pc.any(pc.match_substring_regex(texts, r'[\x00-\x1f"\\]')).as_py():
        texts = pc.replace_substring(texts, "\\", "\\\\")
        for code in (0x22, *range(0x20)):
            texts = pc.replace_substring(texts, chr(code), '\\"' if code == 0x22 else json.dumps(chr(code))[1:-1])
    return pc.binary_join_element_wise('"', texts, '"', "")
