"""`export`: records of topics become rows of a table of Parquet files, each exactly once.

A batch covers the offsets from the table's end (its last commit) to the topics' ends. It is cut into tasks, each of
which writes its own files, and is then committed. After any crash, the next run begins at the last commit: nothing is
missing and nothing is duplicated.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from kraft.log_dir import TopicPartition
from kraft.pipeline.origins import origin_of
from kraft.pipeline.parquet import FileSettings, RangeWriter
from kraft.pipeline.table import Commit, DataFile, Span, Table, TableError
from kraft.pipeline.workers import Workers
from kraft.spark.errors import DataLossError
from kraft.spark.positions import Origin
from kraft.spark.splits import Range, balance

TASK_BYTES = 128 << 20
EXPORT = "export"


class ExportTask(NamedTuple):
    """Ranges that one worker writes to files in `staging`. Plain values."""

    source: Mapping[str, str]
    table: str
    staging: str
    settings: FileSettings
    ranges: tuple[Range, ...]


class Batch(NamedTuple):
    """Content of the next commit."""

    spans: list[Span]
    ranges: list[Range]
    topic_ids: dict[str, str]

    @property
    def size_bytes(self) -> int:
        """Approximate number of bytes to read."""
        return sum(each.size_bytes for each in self.ranges)


def export_ranges(task: ExportTask) -> list[DataFile]:
    """Write the records of the ranges and return the files, which are durable and not yet in a commit. May be repeated:
    every attempt has its own file names."""
    files: list[DataFile] = []
    origin = origin_of(task.source)
    try:
        for piece in task.ranges:
            writer = RangeWriter(Path(task.table), Path(task.staging), Span(piece.topic, piece.partition, piece.start,
                                                                            piece.end),
                                 task.settings, uuid.uuid4().hex[:12])
            try:
                for columns in origin.read(piece, task.settings.columns):
                    writer.write(pa.record_batch(columns))
                files += writer.close()
            finally:
                writer.abandon()
    finally:
        origin.close()
    return files


def plan_batch(origin: Origin, table: Path, last: Commit | None, *, records_max: int | None = None,
               allow_loss: bool = False) -> Batch:
    """Plan from the table's end to the topics' ends, at most about `records_max` offsets in all.

    Raises `DataLossError` for offsets that were deleted, unless that is allowed. Raises `TableError` when a topic is
    another one than that of the table's rows.
    """
    ends = {} if last is None else last.ends
    names = origin.partitions()
    earliest, latest = origin.earliest(names), origin.latest(names)
    ids = origin.topic_ids(names)
    for topic, known in ({} if last is None else last.topic_ids).items():
        if ids.get(topic, known) != known:
            raise TableError(f"{table}: topic {topic} was deleted and created again since: its id was {known} and is "
                             f"{ids[topic]}")
    spans = [_span(name, ends.get(name), earliest[name], latest[name]) for name in names]
    lost = [Range(each.topic, each.partition, each.start, each.start + each.lost) for each in spans if each.lost]
    if lost and not allow_loss:
        raise DataLossError(f"{', '.join(map(str, lost))}: these offsets are not in the log any more")
    spans = [each for each in _within(spans, records_max) if each.end > each.start]
    return Batch(spans, origin.ranges({each.name: (each.start + each.lost, each.end) for each in spans}),
                 {topic: ids[topic] for topic in sorted({name.topic for name in names}) if topic in ids})


def _span(name: TopicPartition, reached: int | None, earliest: int, latest: int) -> Span:
    start = earliest if reached is None else reached
    if latest < start:
        raise TableError(f"{name.topic}-{name.partition} ends at offset {latest}, but the table has its records up to "
                         f"{start}: the log has lost what was exported")
    return Span(*name, start, latest, max(earliest - start, 0))


def _within(spans: Sequence[Span], records_max: int | None) -> list[Span]:
    """Return the spans, cut so that together they have at most about `records_max` offsets: each in proportion."""
    total = sum(each.end - each.start for each in spans)
    if records_max is None or total <= records_max:
        return list(spans)
    return [each._replace(end=max(each.start + max((each.end - each.start) * records_max // total, 1),
                                  min(each.start + each.lost, each.end)))
            if each.end > each.start else each for each in spans]


def run_batch(table: Table, source: Mapping[str, str], settings: FileSettings, workers: Workers,
              batch: Batch, *, query_id: str = EXPORT, batch_id: int | None = None,
              progress: Callable[[int], None] = lambda _: None) -> Commit:
    """Write and commit a planned batch. If a commit with its ids exists, nothing changes."""
    last = table.last()
    batch_id = (0 if last is None else last.number + 1) if batch_id is None else batch_id
    if (commit := table.made_by(query_id, batch_id)) is not None:
        return commit
    tasks = [ExportTask(source, str(table.path), str(table.staging), settings, task)
             for task in balance(batch.ranges, TASK_BYTES)]
    files: list[DataFile] = []
    for task, found in workers.run(export_ranges, tasks):
        files += found
        progress(sum(each.size_bytes for each in task.ranges))
    return table.commit(batch.spans, files, query_id=query_id, batch_id=batch_id, topic_ids=batch.topic_ids)
