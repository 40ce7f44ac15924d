"""What an application may hand to a log as a record or a column, brought to the forms that the engine takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from kraft_native.errors import InvalidArgumentError
from kraft_native.records import Record

Bytes: TypeAlias = bytes | bytearray | memoryview
HeaderPairs: TypeAlias = Iterable[tuple[str, Bytes | None]]
Headers: TypeAlias = HeaderPairs | Mapping[str, Bytes | None]
RecordTuple: TypeAlias = (tuple[Bytes | None] | tuple[Bytes | None, Bytes | None]
                          | tuple[Bytes | None, Bytes | None, int | None]
                          | tuple[Bytes | None, Bytes | None, int | None, Headers])
RecordInput: TypeAlias = Bytes | Record | RecordTuple
# Values are not checked yet: the encoder does.
Fields: TypeAlias = tuple[Any, Any, int | None, Iterable[tuple[Any, Any]]]

# 2000-01-01: a time before it was most likely given in seconds.
YEAR_2000_MS: Final = 946_684_800_000
_DEFAULTS: Final[tuple[Any, ...]] = (None, None, None, ())
_WANTED: Final = "a value in bytes, a tuple (value, key, timestamp_ms, headers) whose end may be left out, or a Record"


def record_fields(record: RecordInput) -> Fields:
    """Value, key, timestamp in ms or None, header pairs. `InvalidArgumentError` says what a record may be."""
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
    """Headers as a tuple of pairs. `InvalidArgumentError` for what is no mapping and no pairs."""
    if isinstance(headers, Mapping):
        return tuple(headers.items())
    try:
        return tuple((name, value) for name, value in headers)
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"headers: {headers!r} is no mapping, and no (name, value) pairs") from None


def size_of(fields: Fields) -> int:
    """About the bytes of a record; what is no bytes counts nothing, as it is refused later."""
    value, key, _, headers = fields
    size = sum(len(each) for each in (value, key) if isinstance(each, bytes | bytearray | memoryview))
    for name, content in headers:
        size += 10 + (4 * len(name) if isinstance(name, str) else 0)
        size += len(content) if isinstance(content, bytes | bytearray | memoryview) else 0
    return size


def column(values: Any) -> Any:
    """A column as the encoder takes it: series of pandas or polars, chunked Arrow arrays and lists become Arrow arrays,
    others stay as they are. `InvalidArgumentError` for values of several kinds."""
    if values is None or isinstance(values, tuple | int) or hasattr(values, "__arrow_c_array__") \
            or type(values).__module__.partition(".")[0] == "numpy":
        return values
    is_pandas = type(values).__module__.partition(".")[0] == "pandas"
    if not (is_pandas or isinstance(values, list) or hasattr(values, "__arrow_c_stream__")):
        return values
    import pyarrow as pa

    try:
        found = pa.array(values, from_pandas=is_pandas) if is_pandas or isinstance(values, list) else \
            pa.chunked_array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidArgumentError(f"a column's values are not of one kind that Arrow has: {error}") from error
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
