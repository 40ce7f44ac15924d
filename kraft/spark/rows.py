"""Columns of records as the Arrow record batches that Spark accepts: its column names, types and order, exactly.

No Python object is created for a record. Values that are the same in all rows of a partition (topic, partition) are
created once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kraft.spark.positions import RecordColumns
from kraft_native.base.errors import InvalidRecordError

MICROSECONDS: Final = pa.timestamp("us", "UTC")

MANY_ROWS: Final = 10_000
PIECE_BYTES: Final = 4 << 20

# Our column for a column of Spark.
SOURCES: Final = {"key": "key", "value": "value", "offset": "offset", "timestamp": "timestamp",
                  "timestampType": "timestamp_type", "headers": "headers"}


class RowShape:
    """Converter from the columns of records to record batches of one Spark schema. Used by one thread at a time."""

    def __init__(self, schema: StructType) -> None:
        self.schema = to_arrow_schema(schema, timezone="UTC")
        self.names: Sequence[str] = self.schema.names
        # At least one column of the records is needed to count the rows.
        self.columns = tuple(SOURCES[name] for name in self.names if name in SOURCES) or ("offset",)
        self._constants: dict[str, pa.Array] = {}

    def batch(self, topic: str, partition: int, columns: RecordColumns) -> pa.RecordBatch:
        """Return the rows of `columns`, which were read with `self.columns`.

        Raise `InvalidRecordError` for a timestamp without a value in Spark.
        """
        found = pa.record_batch(columns)
        arrays = []
        for name, field in zip(self.names, self.schema, strict=True):
            if name == "topic":
                arrays.append(self._constant(name, topic, len(found), pa.string()))
            elif name == "partition":
                arrays.append(self._constant(name, partition, len(found), pa.int32()))
            elif name == "timestamp":
                arrays.append(_microseconds(found, topic, partition))
            elif name in CONVERSIONS:
                arrays.append(CONVERSIONS[name](found[SOURCES[name]], field.type))
            else:
                arrays.append(found[SOURCES[name]])
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _constant(self, name: str, value: str | int, rows: int, kind: pa.DataType) -> pa.Array:
        kept = self._constants.get(name)
        if kept is None or len(kept) < rows or kept[0].as_py() != value:
            kept = pa.repeat(pa.scalar(value, kind), max(rows, MANY_ROWS))
            self._constants[name] = kept
        return kept[:rows]


def pieces_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the batch, or slices of it when decompression made it large: Java holds each piece as a whole."""
    pieces = batch.nbytes // PIECE_BYTES
    if pieces < 2:
        yield batch
        return
    rows = -(-len(batch) // pieces)
    for start in range(0, len(batch), rows):
        yield batch.slice(start, rows)


def _microseconds(found: pa.RecordBatch, topic: str, partition: int) -> pa.Array:
    try:
        return found["timestamp"].cast(MICROSECONDS)
    except pa.ArrowInvalid as error:
        raise InvalidRecordError(f"{topic}-{partition}: a record has a timestamp that is too far from 1970 for Spark: "
                                 f"{error}") from error


def _integers(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column.cast(kind)


def _headers(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Kafka's connector has null, not an empty array, for a record without headers."""
    empty = pc.equal(pc.list_value_length(column), 0)
    keys, values = column.values.field(0), column.values.field(1)
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(kind.value_type))
    return pa.ListArray.from_arrays(column.offsets, pairs, type=kind, mask=empty)


CONVERSIONS: Final[dict[str, Callable[[pa.Array, pa.DataType], pa.Array]]] = {
    "timestampType": _integers, "headers": _headers,
}
