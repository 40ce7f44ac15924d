"""`df.write` and `writeStream` of `format("kraft")`: tasks that encode rows, and the steps that make them visible.

At least once: each task sends its rows as they come; a repeated task or batch sends them again. Exactly once (a
stream's default): see `staging` and `publishing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kraft._version import __version__
from kraft.spark.encoding import Encoded, RowEncoder
from kraft.spark.library_produce import library_send
from kraft.spark.library_transaction import library_counts
from kraft.spark.produce import cluster_counts, open_producer
from kraft.spark.publishing import publish
from kraft.spark.staging import StagedFile, Staging
from kraft.spark.versions import check_kraft
from kraft.spark.write_options import WriteOptions
from kraft_native.base.errors import InvalidArgumentError

if TYPE_CHECKING:
    from typing import TypeAlias

    Messages: TypeAlias = Sequence[WriterCommitMessage | None]


@dataclass
class Written(WriterCommitMessage):
    """Result of one task: the number of rows, the files that it staged, and their query."""

    rows: int
    files: tuple[StagedFile, ...] = ()
    query_id: str = ""


class BatchWriter(DataSourceArrowWriter):
    """Writer of the rows of a batch query, at least once."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options
        self.version = __version__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        check_kraft(self.version)
        return send_rows(iterator, self.options)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writer of the rows of a stream."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options
        self.version = __version__

    @property
    def _exactly_once(self) -> bool:
        return self.options.delivery == "exactly-once"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        check_kraft(self.version)
        if not self._exactly_once:
            return send_rows(iterator, self.options)
        query_id, counted = running_query(), Counted(iterator)
        with partitions_of(self.options) as count:
            files = Staging(self.options, query_id).stage(encoded_rows(counted, self.options, count))
        return Written(counted.rows, tuple(files), query_id)

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803 - Spark's name
        for query_id in _queries(messages) if self._exactly_once else ():
            publish(self.options, query_id, batchId, _files(messages))

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803, ARG002
        # Spark also calls this when `commit` failed, perhaps after its decision.
        for query_id in _queries(messages) if self._exactly_once else ():
            Staging(self.options, query_id).discard(_files(messages))


def running_query() -> str:
    """Return the id of the streaming query of this task. Spark keeps it in the query's checkpoint."""
    task = TaskContext.get()
    found = None if task is None else task.getLocalProperty("sql.streaming.queryId")
    if not found:
        raise InvalidArgumentError("option delivery: exactly-once is for tasks of a streaming query")
    return found


class Counted:
    """Iterator that counts the rows of its batches."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self.rows = 0
        self._batches = batches

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += len(batch)
            yield batch


@contextmanager
def partitions_of(options: WriteOptions) -> Iterator[Callable[[str], int]]:
    """Provide a function that returns the number of partitions of a topic."""
    if options.security is None:
        yield library_counts(options)
        return
    with open_producer(options).cluster as cluster:
        yield cluster_counts(options, cluster)


def encoded_rows(rows: Counted, options: WriteOptions, partition_count: Callable[[str], int]) -> Iterator[Encoded]:
    encoder = RowEncoder(options, partition_count)
    for batch in rows:
        yield from encoder.add(batch)
    yield from encoder.finish()


def send_rows(iterator: Iterator[pa.RecordBatch], options: WriteOptions) -> Written:
    """Send rows as they come, in a task. With acks=all the leader drops the duplicates of a repeated request."""
    rows = Counted(iterator)
    if options.security is None:
        library_send(iter(rows), options)
        return Written(rows.rows)
    producer = open_producer(options)
    with producer.cluster as cluster:
        if options.acks == -1:
            producer.identify()
        for place, batch in encoded_rows(rows, options, cluster_counts(options, cluster)):
            producer.send({place: batch})
    return Written(rows.rows)


def _queries(messages: Messages) -> set[str]:
    """Return the one query of all tasks; an empty set when there was no task."""
    return {message.query_id for message in messages if isinstance(message, Written)}


def _files(messages: Messages) -> list[StagedFile]:
    return [file for message in messages if isinstance(message, Written) for file in message.files]
