"""`df.write` and `writeStream` of `format("kraft")`: tasks that encode rows, and how what they wrote becomes visible.

At least once: each task sends what it has as it comes; a task, or a batch, that is repeated sends it again. Exactly
once (a stream's default): see `staging`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kraft.spark.encoding import Encoded, RowEncoder
from kraft.spark.library_produce import library_send
from kraft.spark.produce import BatchProducer
from kraft.spark.staging import StagedFile, Staging
from kraft.spark.write_options import WriteOptions

if TYPE_CHECKING:
    from typing import TypeAlias

    Messages: TypeAlias = Sequence[WriterCommitMessage | None]


@dataclass
class Written(WriterCommitMessage):
    """What one task wrote: rows, and the files that it staged."""

    rows: int
    files: tuple[StagedFile, ...] = ()


class BatchWriter(DataSourceArrowWriter):
    """Writes the rows of a batch query, at least once."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return send_rows(iterator, self.options)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of a stream."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options

    @property
    def _exactly_once(self) -> bool:
        return self.options.delivery == "exactly-once"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        if not self._exactly_once:
            return send_rows(iterator, self.options)
        producer = BatchProducer(self.options)
        try:
            counted = Counted(iterator)
            files = Staging(self.options).stage(encoded_rows(counted, self.options, producer))
            return Written(counted.rows, tuple(files))
        finally:
            producer.close()

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803 - Spark's name
        if self._exactly_once:
            Staging(self.options).publish(batchId, _files(messages))

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803, ARG002
        # Also called when `commit` failed, perhaps behind its decision.
        if self._exactly_once:
            Staging(self.options).discard(_files(messages))


class Counted:
    """Counts the rows that pass."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self.rows = 0
        self._batches = batches

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += len(batch)
            yield batch


def encoded_rows(rows: Counted, options: WriteOptions, producer: BatchProducer) -> Iterator[Encoded]:
    encoder = RowEncoder(options, producer.partition_count)
    for batch in rows:
        yield from encoder.add(batch)
    yield from encoder.finish()


def send_rows(iterator: Iterator[pa.RecordBatch], options: WriteOptions) -> Written:
    """In a task: sends rows as they come. The leader drops what a request that is repeated brings again."""
    rows = Counted(iterator)
    if not options.plain:
        library_send(iter(rows), options)
        return Written(rows.rows)
    producer = BatchProducer(options)
    try:
        if options.acks == -1:
            producer.identify()
        for place, batch in encoded_rows(rows, options, producer):
            producer.send(place, batch)
    finally:
        producer.close()
    return Written(rows.rows)


def _files(messages: Messages) -> list[StagedFile]:
    return [file for message in messages if isinstance(message, Written) for file in message.files]
