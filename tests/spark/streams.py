"""Streams driven as Spark drives them, in this process: one reader object plans, copies of it read."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from typing import Any

from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadLimit

from kraft.spark.source import KraftSource
from kraft.spark.stream import StreamReader
from kraft.spark.tasks import TaskRanges


class Stream:
    """A streaming query with its checkpoint: `offsets` are the marks that were planned, `done` how many batches ran."""

    def __init__(self, options: Mapping[str, str], offsets: list[str] | None = None, done: int = 0,
                 *, available_now: bool = False) -> None:
        source = KraftSource(CaseInsensitiveDict(options))
        schema = source.schema()
        found = source.streamReader(schema)
        assert isinstance(found, StreamReader)
        self.reader = found
        self.offsets = [json.dumps(self.reader.initialOffset())] if offsets is None else offsets
        self.done = done
        if available_now:
            self.reader.prepareForTriggerAvailableNow()
        while self.done < len(self.offsets) - 1:
            self.run()

    def plan(self, limit: ReadLimit | None = None) -> bool:
        """Check for new data and record its end; return False when there is none."""
        start = self.offsets[-1]
        end = json.dumps(self.reader.latestOffset(json.loads(start), limit or self.reader.getDefaultReadLimit()))
        if end == start:
            return False
        self.offsets.append(end)
        return True

    def run(self) -> list[dict[str, Any]]:
        """Return the rows of the batch that was planned and not run yet."""
        start, end = (json.loads(text) for text in self.offsets[self.done:self.done + 2])
        rows: list[dict[str, Any]] = []
        for task in self.reader.partitions(start, end):
            assert isinstance(task, TaskRanges)
            worker = pickle.loads(pickle.dumps(StreamReader(self.reader.schema, self.reader.options)))
            for batch in worker.read(pickle.loads(pickle.dumps(task))):
                rows += batch.to_pylist()
        self.done += 1
        return rows

    def batch(self, limit: ReadLimit | None = None) -> list[int] | None:
        """Return the values of the next batch, sorted; None when there is nothing new."""
        return sorted(int(row["value"]) for row in self.run()) if self.plan(limit) else None

    def close(self) -> None:
        self.reader.stop()
