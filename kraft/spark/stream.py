"""`spark.readStream.format("kraft")`: the offsets that each micro-batch reads.

Spark keeps one of these objects per query in a process of its own. It requests the newest offset, writes that to the
checkpoint, and then requests the tasks between two offsets. `progress` decides; this module passes the bounds of the
log to it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from kraft.log_dir import TopicPartition
from kraft.spark.group_offsets import GroupOffsets
from kraft.spark.options import ReadOptions
from kraft.spark.origin import origin_of
from kraft.spark.positions import Origin, start_offsets
from kraft.spark.progress import Mark, changes, limited, spans_between
from kraft.spark.tasks import TaskRanges, read_rows, tasks_of


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream of topics. Offsets are `Mark`s in JSON."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self.schema = schema
        self.options = options
        self._target: Mark | None = None
        self._triggered = time.monotonic()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's names, here and below
        partitions = self._origin.partitions()
        starts = start_offsets(self._origin, self.options, partitions, self._origin.earliest(partitions),
                               self._origin.latest(partitions))
        return Mark(starts, self._origin.topic_ids(partitions)).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self.options.offsets_per_trigger_max is not None:
            return ReadMaxRows(self.options.offsets_per_trigger_max)
        if self.options.offsets_per_trigger_min is not None:
            return ReadMinRows(self.options.offsets_per_trigger_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._now()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        mark = Mark.from_json(start)
        # Spark requests the next batch when the previous one is done and noted in its checkpoint.
        if self._group is not None:
            self._group.publish(mark.offsets)
        now = self._now()
        end = changes(mark, now, self._target, self.options.fail_on_data_loss)
        end = self._limited(mark, end, limit)
        if end == mark:
            return start
        self._triggered = time.monotonic()
        return end.to_json()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._now().to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [TaskRanges(task) for task in tasks_of(self._origin.ranges(self.spans(start, end)), self.options)]

    def spans(self, start: dict[str, Any], end: dict[str, Any]) -> dict[TopicPartition, tuple[int, int]]:
        """Return (start, end) of each partition between two offsets."""
        first, last = Mark.from_json(start), Mark.from_json(end)
        there = self._origin.partitions()
        return spans_between(first, last, self._origin.earliest(there), self._origin.latest(there),
                             self._origin.topic_ids(there), self.options.fail_on_data_loss)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_rows(partition, self.schema, self.options)

    def stop(self) -> None:
        self._origin.close()
        if self._group is not None:
            self._group.close()

    def _limited(self, start: Mark, end: Mark, limit: ReadLimit) -> Mark:
        """Return `end`, or less of it; `start` while too few offsets are new."""
        if isinstance(limit, ReadAllAvailable):
            return end
        minimum = self.options.offsets_per_trigger_min
        # A query with a target must read everything up to it, so the minimum does not apply.
        if minimum is not None and self._target is None and end.ahead_of(start) < minimum:
            waited_ms = (time.monotonic() - self._triggered) * 1000
            if waited_ms < self.options.trigger_delay_max_ms:
                return start
        return limited(start, end, limit.max_rows) if isinstance(limit, ReadMaxRows) else end

    def _now(self) -> Mark:
        """Return the current log ends."""
        self._origin.refresh()
        partitions = self._origin.partitions()
        return Mark(self._origin.latest(partitions), self._origin.topic_ids(partitions))

    @cached_property
    def _origin(self) -> Origin:
        return origin_of(self.options)

    @cached_property
    def _group(self) -> GroupOffsets | None:
        return GroupOffsets(self.options) if self.options.publish_offsets else None
