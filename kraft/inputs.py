"""Conversion of the records and columns that an application passes to a log into the forms that the engine accepts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from kraft_native.base.errors import InvalidArgumentError
from kraft_native.base.extras import extra_module
from kraft_native.batch.records import Record

Bytes: TypeAlias = bytes | bytearray | memoryview
HeaderPairs: TypeAlias = Iterable[tuple[str, Bytes | None]]
Headers: TypeAlias = HeaderPairs | Mapping[str, Bytes | None]
RecordTuple: TypeAlias = (tuple[Bytes | None] | tuple[Bytes | None, Bytes | None]
                          | tuple[Bytes | None, Bytes | None, int | None]
                          | tuple[Bytes | None, Bytes | None, int | None, Headers])
RecordInput: TypeAlias = Bytes | Record | RecordTuple
# The values are unchecked: the encoder checks them.
Fields: TypeAlias = tuple[Any, Any, int | None, Iterable[tuple[Any, Any]]]

# 2000-01-01: an earlier time was most likely given in seconds.
YEAR_2000_MS: Final = 946_684_800_000
_DEFAULTS: Final[tuple[Any, ...]] = (None, None, None, ())
_WANTED: Final = "a value in bytes, a tuple (value, key, timestamp_ms, headers) whose end may be left out, or a Record"


def record_fields(record: RecordInput) -> Fields:
    """Return value, key, timestamp in ms or None, and header pairs. Raises `InvalidArgumentError`, which lists the
    accepted forms."""
    if isinstance(record, tuple):
        if not 1 <= len(record) <= len(_DEFAULTS):
            raise InvalidArgumentError(f"records: a tuple of {len(record)} is no record: it is {_WANTED}")
        given: tuple[Any, ...] = record
        value, key, timestamp_ms, headers = (*given, *_DEFAULTS[len(given):])
        return value, key, timestamp_ms, header_pairs(headers) if headers else ()
    if isinstance(record, bytes | bytearray | memoryview):
        return record, None, None, ()
    if isinstance(record, Record):
        return record.value, record.key, record.timestamp_ms, record.headers
    raise InvalidArgumentError(f"records: {record!r} is no record: it is {_WANTED}")


def header_pairs(headers: Headers) -> HeaderPairs:
    """Return headers as a tuple of pairs. Raises `InvalidArgumentError` when they are neither a mapping nor pairs."""
    if isinstance(headers, Mapping):
        return tuple(headers.items())
    try:
        return tuple((name, value) for name, value in headers)
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"headers: {headers!r} is no mapping, and no (name, value) pairs") from None


def size_of(fields: Fields) -> int:
    """Return the approximate size of a record in bytes. Values of other types count as 0: the encoder refuses them."""
    value, key, _, headers = fields
    size = sum(len(each) for each in (value, key) if isinstance(each, bytes | bytearray | memoryview))
    for name, content in headers:
        size += 10 + (4 * len(name) if isinstance(name, str) else 0)
        size += len(content) if isinstance(content, bytes | bytearray | memoryview) else 0
    return size


def column(values: Any) -> Any:
    """Return a column in a form that the encoder accepts. Series of pandas or polars, chunked Arrow arrays and lists
    become Arrow arrays; other columns are returned unchanged. Raises `InvalidArgumentError` for values of mixed types.
    """
    if values is None or isinstance(values, tuple | int) or hasattr(values, "__arrow_c_array__") \
            or type(values).__module__.partition(".")[0] == "numpy":
        return values
    is_pandas = type(values).__module__.partition(".")[0] == "pandas"
    if not (is_pandas or isinstance(values, list) or hasattr(values, "__arrow_c_stream__")):
        return values
    pa = extra_module("pyarrow", "arrow")
    try:
        found = pa.array(values, from_pandas=is_pandas) if is_pandas or isinstance(values, list) else \
            pa.chunked_array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidArgumentError(f"a column's values are not of one kind that Arrow has: {error}") from error
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
