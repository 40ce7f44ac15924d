"""Exports driven by Spark's streaming: its stream carries ranges of offsets, its checkpoint records them, and every
micro-batch becomes one commit of the table.

Spark streams one row per partition, however many records it has. Spark's workers read and write the records themselves.
When a crash prevents Spark from noting the end of a micro-batch, it runs the batch again with the same id and the same
ranges. If its commit exists, nothing is done.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from kraft.log_dir import TopicPartition
from kraft.pipeline.export import Batch, run_batch
from kraft.pipeline.on_spark import SparkWorkers
from kraft.pipeline.origins import origin_of
from kraft.pipeline.parquet import FileSettings
from kraft.pipeline.table import Commit, Span, Table
from kraft.spark.options import read_options
from kraft.spark.source import KraftSource
from kraft.spark.stream import StreamReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NAME: Final = "kraft-ranges"
SCHEMA: Final = "topic string, partition int, start long, end long"


@dataclass(frozen=True)
class Ranges(InputPartition):
    """All ranges of a micro-batch."""

    spans: tuple[tuple[str, int, int, int], ...]


class RangeReader(StreamReader):
    """Stream reader of the available offsets, without their content."""

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        spans = self.spans(start, end)
        return [Ranges(tuple((*name, *span) for name, span in sorted(spans.items()) if span[0] < span[1]))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Ranges), f"{partition!r} is not one of ours"
        return iter(partition.spans)


class RangeSource(KraftSource):
    """Data source `format("kraft-ranges")`: the options of `format("kraft")`, a row for each partition."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:  # type: ignore[override]
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return RangeReader(schema, read_options(self.options, streaming=True))


def export_stream(spark: SparkSession, table: Table, source: Mapping[str, str], settings: FileSettings,
                  checkpoint: Path, *, every_seconds: float | None = None) -> StreamingQuery:
    """Start the query, which adds to the open table. It ends when the table has everything, or runs indefinitely with a
    check every `every_seconds`. A new checkpoint begins where the table ends.

    `source` has the options of `format("kraft")`, such as `maxOffsetsPerTrigger`. The query fails with the errors of
    the source, and with `TableError`.
    """
    spark.dataSource.register(RangeSource)
    options = {**source, "startingOffsets": starting_offsets(source, table.last())}
    stream = spark.readStream.format(NAME).options(**options).load()

    def commit(rows: DataFrame, batch_id: int) -> None:
        query_id = json.loads((checkpoint / "metadata").read_text())["id"]
        run_batch(table, source, settings, SparkWorkers(spark), batch_of(rows, source, table.last()),
                  query_id=query_id, batch_id=batch_id)

    writer = stream.writeStream.foreachBatch(commit).option("checkpointLocation", str(checkpoint))
    if every_seconds is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{every_seconds} seconds").start()


def batch_of(rows: DataFrame, source: Mapping[str, str], last: Commit | None) -> Batch:
    """Return what a micro-batch adds to the table. Offsets between the table's end and the batch's start were lost,
    with permission."""
    ends = {} if last is None else last.ends
    spans = []
    for topic, partition, start, end in sorted(map(tuple, rows.collect())):
        reached = min(ends.get(TopicPartition(topic, partition), start), start)
        spans.append(Span(topic, partition, reached, end, start - reached))
    origin = origin_of(source)
    try:
        names = [each.name for each in spans]
        known = set(origin.partitions())
        return Batch(spans, origin.ranges({each.name: (each.start + each.lost, each.end) for each in spans}),
                     origin.topic_ids([name for name in names if name in known]))
    finally:
        origin.close()


def starting_offsets(source: Mapping[str, str], last: Commit | None) -> str:
    """Return the start of a query without a checkpoint: the table's ends, and elsewhere the earliest offset."""
    if last is None:
        return "earliest"
    origin = origin_of(source)
    try:
        starts: dict[str, dict[str, int]] = {}
        for name in origin.partitions():
            starts.setdefault(name.topic, {})[str(name.partition)] = last.ends.get(name, -2)
        return json.dumps(starts)
    finally:
        origin.close()
