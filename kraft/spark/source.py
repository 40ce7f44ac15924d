"""`spark.read.format("kraft")`: the data source and its batch reader.

Spark makes these objects in processes of its own: the source where a query is analysed, a reader where it is planned,
and copies of that reader in every task. Filters are not pushed down (`pushFilters`): Spark 4.3 keeps what was pushed
for one use of a DataFrame for all others, too, which then lack rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kraft.spark.cluster import ClusterTopics
from kraft.spark.directories import Directories
from kraft.spark.options import ReadOptions, read_options
from kraft.spark.positions import Origin, batch_spans
from kraft.spark.rows import RowShape
from kraft.spark.schema import check_schema, full_schema
from kraft.spark.splits import TASK_BYTES, Range, Task, balance, cut_to_count, cut_to_records

NAME = "kraft"


def origin_of(options: ReadOptions) -> Origin:
    """What the options say to read from."""
    return Directories(options) if options.paths else ClusterTopics(options)


class KraftSource(DataSource):
    """Topics of a cluster, or of log directories, as tables."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        # Whether the query streams is not known here, and does not matter to the columns.
        include_headers = str(self.options.get("includeHeaders", "false")).strip().lower() == "true"
        return full_schema(include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(self.options, streaming=False)
        return BatchReader(check_schema(schema, options.include_headers), options)


@dataclass(frozen=True)
class TaskRanges(InputPartition):
    """What one task reads."""

    ranges: Task


class BatchReader(DataSourceReader):
    """Reads what was there when the query was planned."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self.schema = schema
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        origin = origin_of(self.options)
        try:
            spans = batch_spans(origin, self.options)
            tasks = tasks_of(origin.ranges(spans), self.options)
        finally:
            origin.close()
        # Without any Spark would make one task of its own.
        return [TaskRanges(task) for task in tasks] or [TaskRanges(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TaskRanges), f"{partition!r} is not one of ours"
        return read_rows(partition.ranges, self.schema, self.options)


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
    shape = RowShape(schema)
    origin = origin_of(options)
    try:
        for each in ranges:
            for columns in origin.read(each, shape.columns):
                yield shape.batch(each.topic, each.partition, columns)
    finally:
        origin.close()
