"""The tasks of a query: what each reads, and how it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from kraft.spark.garbage import spare_imports
from kraft.spark.options import ReadOptions
from kraft.spark.origin import origin_of
from kraft.spark.rows import RowShape, pieces_of
from kraft.spark.splits import TASK_BYTES, Range, Task, balance, cut_to_count, cut_to_records


@dataclass(frozen=True)
class TaskRanges(InputPartition):
    """What one task reads."""

    ranges: Task


def tasks_of(ranges: list[Range], options: ReadOptions) -> list[Task]:
    """The tasks that read these ranges: by bytes, unless the user asks for a count or a number of records."""
    if options.records_per_partition_max is not None:
        ranges = cut_to_records(ranges, options.records_per_partition_max)
    if options.min_partitions is not None:
        ranges = cut_to_count(ranges, options.min_partitions)
    if options.records_per_partition_max is not None or options.min_partitions is not None:
        return [(each,) for each in ranges]
    return balance(ranges, options.bytes_per_partition_max or TASK_BYTES)


def read_rows(ranges: Sequence[Range], schema: StructType, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """The rows of some ranges, in a task."""
    if not ranges:
        return
    spare_imports()
    shape = RowShape(schema)
    origin = origin_of(options)
    try:
        for each in ranges:
            for columns in origin.read(each, shape.columns):
                yield from pieces_of(shape.batch(each.topic, each.partition, columns))
    finally:
        origin.close()
