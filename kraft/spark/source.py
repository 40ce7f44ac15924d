"""`spark.read.format("kraft")`: the data source and its batch reader.

Spark creates these objects in processes of its own: the source where a query is analysed, a reader where it is planned,
and copies of that reader in every task. Filters are not pushed down (`pushFilters`). Spark 4.3 keeps a filter that was
pushed for one use of a DataFrame for all others too, which then lack rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from kraft.spark.options import ReadOptions, read_options
from kraft.spark.origin import origin_of
from kraft.spark.positions import batch_spans
from kraft.spark.schema import check_schema, full_schema
from kraft.spark.sink import BatchWriter, StreamWriter
from kraft.spark.stream import StreamReader
from kraft.spark.tasks import TaskRanges, read_rows, tasks_of
from kraft.spark.write_options import write_options
from kraft_native.base.errors import InvalidArgumentError

NAME: Final = "kraft"


class KraftSource(DataSource):
    """Topics of a cluster, or of log directories, as tables."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        # It is unknown here whether the query streams, and the columns do not depend on it.
        include_headers = str(self.options.get("includeHeaders", "false")).strip().lower() == "true"
        return full_schema(include_headers)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        options = read_options(self.options, streaming=True)
        return StreamReader(check_schema(schema, options.include_headers), options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise InvalidArgumentError("mode overwrite: a topic cannot be overwritten; use mode append")
        return BatchWriter(write_options(self.options, schema, streaming=False))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802, ARG002
        # `overwrite` says that each batch is a whole result (output mode complete). It is appended after the others.
        return StreamWriter(write_options(self.options, schema, streaming=True))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(self.options, streaming=False)
        return BatchReader(check_schema(schema, options.include_headers), options)


class BatchReader(DataSourceReader):
    """Reader of the records that existed when the query was planned."""

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
        # Without any task Spark would create one of its own.
        return [TaskRanges(task) for task in tasks] or [TaskRanges(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_rows(partition, self.schema, self.options)
