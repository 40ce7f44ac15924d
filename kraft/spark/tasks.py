"""Tasks of a query: the ranges of each, and how it reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from kraft._version import __version__
from kraft.spark.garbage import spare_imports
from kraft.spark.options import ReadOptions
from kraft.spark.origin import origin_of
from kraft.spark.rows import RowShape, pieces_of
from kraft.spark.splits import TASK_BYTES, Range, Task, balance, cut_to_count, cut_to_records
from kraft.spark.versions import check_kraft


@dataclass(frozen=True)
class TaskRanges(InputPartition):
    """Ranges that one task reads, and the kraft version of its driver."""

    ranges: Task
    version: str = __version__


def tasks_of(ranges: list[Range], options: ReadOptions) -> list[Task]:
    """Return the tasks that read these ranges. They are cut by bytes, unless the user requests a count or a number of
    records."""
    if options.records_per_partition_max is not None:
        ranges = cut_to_records(ranges, options.records_per_partition_max)
    if options.min_partitions is not None:
        ranges = cut_to_count(ranges, options.min_partitions)
    if options.records_per_partition_max is not None or options.min_partitions is not None:
        return [(each,) for each in ranges]
    return balance(ranges, options.bytes_per_partition_max or TASK_BYTES)


def read_rows(partition: InputPartition, schema: StructType, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, inside the task. Raise `VersionMismatchError` when it runs another kraft than the
    driver."""
    assert isinstance(partition, TaskRanges), f"{partition!r} is not one of ours"
    check_kraft(partition.version)
    if not partition.ranges:
        return
    spare_imports()
    shape = RowShape(schema)
    origin = origin_of(options)
    try:
        for each in partition.ranges:
            for columns in origin.read(each, shape.columns):
                yield from pieces_of(shape.batch(each.topic, each.partition, columns))
    finally:
        origin.close()
