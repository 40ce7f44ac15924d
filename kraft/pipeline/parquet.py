"""Parquet files of one range of a log: a file per hour or day of the records' time, written to a private place
first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kraft.pipeline.decoders import Decoder, DecoderSpec, decode_column, make_decoder
from kraft.pipeline.table import DataFile, Span
from kraft_native.base.errors import InvalidRecordError

HOUR_MS: Final = 3_600_000
# Kafka's mark of a record without a time.
NO_TIME_MS: Final = -1
# The first and last moment with a calendar date: years 1 to 9999.
CALENDAR_MS_MIN: Final = -62_135_596_800_000
CALENDAR_MS_MAX: Final = 253_402_300_799_999
# Hive's name for a partition of rows without a value: records without a time, or with a time outside the calendar.
NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
LAYOUTS: Final = {"none": 0, "day": 24 * HOUR_MS, "hour": HOUR_MS}
# Units of time per millisecond.
UNITS: Final = {"ms": 1, "us": 1_000}
CODECS: Final = ("zstd", "snappy", "lz4", "gzip", "none")

# Arrow bytes of a row group: large enough for good compression and bulk reads, small enough to hold a few.
ROW_GROUP_BYTES: Final = 32 << 20
# Maximum of open files per range; one more closes the largest, and its hour gets a second file.
OPEN_FILES_MAX: Final = 48


class FileSettings(NamedTuple):
    """Format of the files. Plain values."""

    by: str = "hour"
    codec: str = "zstd"
    level: int | None = None
    headers: bool = False
    value: DecoderSpec = DecoderSpec()
    key: DecoderSpec = DecoderSpec()
    on_error: str = "fail"
    time_unit: str = "ms"

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the records that are read."""
        return ("offset", "timestamp", "key", "value", *(("headers",) if self.headers else ()))


@dataclass(slots=True)
class _Open:
    """One file that is being written, with rows that wait for their row group."""

    writer: pq.ParquetWriter
    staged: Path
    path: str
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    waiting_bytes: int = 0
    rows: int = 0

    def flush(self) -> None:
        if self.waiting:
            table = pa.Table.from_batches(self.waiting)
            self.writer.write_table(table, row_group_size=max(len(table), 1))
            self.waiting, self.waiting_bytes = [], 0


class RangeWriter:
    """Writer of the records of one span into files of a table, in its own staging directory. One thread.

    `close` makes the files durable and returns them; a writer that is abandoned leaves files that no commit names.
    """

    def __init__(self, table: Path, staging: Path, span: Span, settings: FileSettings, attempt: str) -> None:
        self.table = table
        self.staging = staging
        self.span = span
        self.settings = settings
        self.attempt = attempt
        self._value = make_decoder(settings.value)
        self._key = make_decoder(settings.key)
        self._open: dict[int | None, _Open] = {}
        self._done: list[DataFile] = []
        self._names = 0
        self.schema = schema_of(settings, self._key, self._value)
        self._partition = pa.scalar(span.partition, pa.int32())

    def write(self, records: pa.RecordBatch) -> None:
        """Add records that were read with `settings.columns`."""
        rows = self._decoded(records)
        for bucket, part in self._buckets(rows):
            target = self._open.get(bucket) or self._begin(bucket)
            target.waiting.append(part)
            target.waiting_bytes += part.nbytes
            target.rows += len(part)
            if target.waiting_bytes >= ROW_GROUP_BYTES:
                target.flush()

    def close(self) -> list[DataFile]:
        """Finish the files, make them durable and return them."""
        for bucket in list(self._open):
            self._end(bucket)
        return self._done

    def abandon(self) -> None:
        """Close the files as they are."""
        for each in self._open.values():
            each.writer.close()
        self._open.clear()

    def _decoded(self, records: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [pa.repeat(self._partition, len(records)), records["offset"], self._times(records)]
        undecoded = []
        for name, decoder, spec in (("key", self._key, self.settings.key), ("value", self._value, self.settings.value)):
            found = decode_column(decoder, records[name], spec.skip_bytes, partial(self._refuse, records, name))
            arrays.append(found.values)
            if spec.format != "bytes":
                undecoded.append(found.undecoded)
        if self.settings.headers:
            arrays.append(_headers(records["headers"], self.schema.field("headers").type))
        return pa.RecordBatch.from_arrays([*arrays, *undecoded], schema=self.schema)

    def _times(self, records: pa.RecordBatch) -> pa.Array:
        """Return the times in the file's unit. Every time is kept; only that of a record without a time is null.
        `InvalidRecordError` names a record whose time does not fit the unit."""
        times, unit = records["timestamp"], self.schema.field(2).type
        numbers = times.view(pa.int64())
        without = pc.equal(numbers, NO_TIME_MS)
        if pc.any(without).as_py():
            times = pc.if_else(without, pa.scalar(None, times.type), times)
        try:
            return times.cast(unit)
        except pa.ArrowInvalid as error:
            most = (2**63 - 1) // UNITS[self.settings.time_unit]
            row = pc.index(pc.greater(pc.abs(numbers), most), True).as_py()
            raise InvalidRecordError(f"{self.span.topic}-{self.span.partition} offset {records['offset'][row]}: its "
                                     f"time of {numbers[row]} ms does not fit {unit}") from error

    def _refuse(self, records: pa.RecordBatch, name: str, row: int, why: str) -> None:
        if self.settings.on_error == "fail":
            raise InvalidRecordError(f"{self.span.topic}-{self.span.partition} offset {records['offset'][row]}: its "
                                     f"{name} cannot be decoded: {why}")

    def _buckets(self, rows: pa.RecordBatch) -> Iterator[tuple[int | None, pa.RecordBatch]]:
        """Yield the rows by day or hour; in most batches all are of one."""
        width = LAYOUTS[self.settings.by] * UNITS[self.settings.time_unit]
        if not width:
            yield 0, rows
            return
        numbers = bucket_numbers(rows["timestamp"].view(pa.int64()), width, UNITS[self.settings.time_unit])
        bounds = pc.min_max(numbers).as_py()
        if not numbers.null_count and bounds["min"] == bounds["max"]:
            yield bounds["min"], rows
            return
        for number in pc.unique(numbers).to_pylist():
            mask = pc.is_null(numbers) if number is None else pc.equal(numbers, number)
            yield number, rows.filter(mask)

    def _begin(self, bucket: int | None) -> _Open:
        if len(self._open) >= OPEN_FILES_MAX:
            self._end(max(self._open, key=lambda each: self._open[each].rows))
        name = (f"{self.span.topic}-{self.span.partition}-{self.span.start:020d}-{self.span.end:020d}-"
                f"{self._names}.parquet")
        self._names += 1
        staged = self.staging / f"{self.attempt}-{name}.part"
        writer = new_writer(staged, self.schema, self.settings, {
            "kraft.topic": self.span.topic, "kraft.partition": str(self.span.partition),
            "kraft.start": str(self.span.start), "kraft.end": str(self.span.end)})
        self._open[bucket] = _Open(writer, staged, f"{directory_of(self.span.topic, bucket, self.settings.by)}/{name}")
        return self._open[bucket]

    def _end(self, bucket: int | None) -> None:
        ended = self._open.pop(bucket)
        ended.flush()
        ended.writer.close()
        self._done.append(DataFile(ended.path, str(ended.staged.relative_to(self.table)), ended.rows,
                                   make_durable(ended.staged)))


def bucket_numbers(times: pa.Array, width: int, unit: int) -> pa.Array:
    """Return the number of the day or hour of each time, relative to 1970; null for a time outside the calendar.
    `width` and `times` are in the same unit, of which a millisecond has `unit`."""
    numbers = pc.divide(times, width)
    numbers = pc.if_else(pc.less(times, pc.multiply(numbers, width)), pc.subtract(numbers, 1), numbers)
    outside = pc.or_(pc.less(times, CALENDAR_MS_MIN * unit), pc.greater(times, (CALENDAR_MS_MAX + 1) * unit - 1))
    return pc.if_else(outside, pa.scalar(None, numbers.type), numbers) if pc.any(outside).as_py() else numbers


def _headers(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return null for a record without headers, as `format("kraft")` and Kafka's connector do."""
    pairs = pa.StructArray.from_arrays([column.values.field(0), column.values.field(1)], fields=list(kind.value_type))
    return pa.ListArray.from_arrays(column.offsets, pairs, type=kind, mask=pc.equal(pc.list_value_length(column), 0))


def schema_of(settings: FileSettings, key: Decoder, value: Decoder) -> pa.Schema:
    """Return the columns of every file. `*_undecoded` has the bytes of a value that could not be decoded, and else
    null."""
    fields = [pa.field("partition", pa.int32(), nullable=False), pa.field("offset", pa.int64(), nullable=False),
              pa.field("timestamp", pa.timestamp(settings.time_unit, "UTC")), pa.field("key", key.type),
              pa.field("value", value.type)]
    if settings.headers:
        header = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
        fields.append(pa.field("headers", pa.list_(pa.field("item", header, nullable=False))))
    for name, spec in (("key", settings.key), ("value", settings.value)):
        if spec.format != "bytes":
            fields.append(pa.field(f"{name}_undecoded", pa.binary()))
    return pa.schema(fields)


def new_writer(path: Path, schema: pa.Schema, settings: FileSettings,
               metadata: dict[str, str] | None = None) -> pq.ParquetWriter:
    """Return a writer whose encodings fit records: differences for offsets and times, plain encoding for payloads. It
    spends no time on dictionaries that would not help, or on statistics of payloads."""
    plain = settings.value.format == "bytes" and settings.key.format == "bytes"
    options: dict[str, Any] = {
        "compression": settings.codec, "compression_level": settings.level, "store_schema": True,
        "write_statistics": ["partition", "offset", "timestamp"],
    }
    if plain and not settings.headers:
        options |= {"use_dictionary": ["partition"],
                    "column_encoding": {"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"}}
    if settings.codec == "none" or settings.level is None:
        del options["compression_level"]
    return pq.ParquetWriter(path, schema.with_metadata(metadata), **options)


def make_durable(path: Path) -> int:
    """Flush a file to disk; return its size."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def directory_of(topic: str, bucket: int | None, by: str) -> str:
    """Return the directory of that day or hour in the table, with Hive's names."""
    parts = [f"topic={quote(topic, safe='')}"]
    if by != "none":
        if bucket is None:
            parts += [f"day={NO_VALUE}", *((f"hour={NO_VALUE}",) if by == "hour" else ())]
        else:
            moment = EPOCH + timedelta(milliseconds=bucket * LAYOUTS[by])
            parts += [f"day={moment.date().isoformat()}", *((f"hour={moment:%H}",) if by == "hour" else ())]
    return "/".join(parts)
