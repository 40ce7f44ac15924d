"""Read a range of a partition through the client library (librdkafka), with security that our own connections lack
(`own_security`). It creates an object per record, so it is several times slower."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import confluent_kafka
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message

from kraft.client import ConnectionFailedError, RefusedError
from kraft.spark.client_options import library_settings
from kraft.spark.options import ReadOptions
from kraft.spark.positions import resume_after_loss
from kraft.spark.splits import Range

MESSAGES: Final = 10_000
WAIT_SECONDS: Final = 0.2
CREATE_TIME: Final = confluent_kafka.TIMESTAMP_CREATE_TIME
HEADERS: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


class LibraryReader:
    """A task's consumer. Used by one thread."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self._consumer = Consumer(library_settings(options.client, **{
            "group.id": options.group_id or f"{options.group_id_prefix}-task", "enable.auto.commit": False,
            "auto.offset.reset": "error", "isolation.level": options.isolation, "enable.partition.eof": True,
            "allow.auto.create.topics": False}))

    def close(self) -> None:
        self._consumer.close()

    def read(self, piece: Range, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range; see `fetch.RangeReader.read`."""
        consumer = self._consumer
        consumer.assign([confluent_kafka.TopicPartition(piece.topic, piece.partition, piece.start)])
        offset = piece.start
        deadline = self._deadline()
        while offset < piece.end:
            messages = consumer.consume(MESSAGES, WAIT_SECONDS)
            rows = []
            for message in messages:
                if (error := message.error()) is not None:
                    offset = self._after_error(error, piece, offset)
                elif (message.offset() or 0) < piece.end:
                    rows.append(message)
            if rows:
                yield _columns(rows, columns)
            reached = self._position(piece)
            if reached > offset:
                offset, deadline = reached, self._deadline()
            elif time.monotonic() > deadline:
                raise ConnectionFailedError(f"{piece}: nothing came for offset {offset}")

    def _deadline(self) -> float:
        return time.monotonic() + self.options.timeout_ms / 1000

    def _position(self, piece: Range) -> int:
        """Return the consumer's next offset. It is also past transaction markers and records that compaction
        removed."""
        found = self._consumer.position([confluent_kafka.TopicPartition(piece.topic, piece.partition)])
        return int(found[0].offset)

    def _after_error(self, error: KafkaError, piece: Range, offset: int) -> int:
        if error.code() == KafkaError._PARTITION_EOF:
            return offset
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            start, _ = self._consumer.get_watermark_offsets(
                confluent_kafka.TopicPartition(piece.topic, piece.partition), timeout=self.options.timeout_ms / 1000)
            resumed = resume_after_loss(piece, offset, start, self.options.fail_on_data_loss)
            self._consumer.seek(confluent_kafka.TopicPartition(piece.topic, piece.partition, resumed))
            return resumed
        if error.fatal() or error.code() > 0:
            raise RefusedError(str(piece), error.code(), error.str())
        return offset


def _headers(message: Message) -> list[dict[str, Any]]:
    headers: Any = message.headers() or ()
    return [{"key": key, "value": value} for key, value in headers]


def _columns(messages: Sequence[Message], columns: Sequence[str]) -> pa.RecordBatch:
    arrays: dict[str, Any] = {
        "offset": lambda: pa.array([each.offset() for each in messages], pa.int64()),
        "timestamp": lambda: pa.array([each.timestamp()[1] for each in messages], pa.timestamp("ms", "UTC")),
        "timestamp_type": lambda: pa.array([each.timestamp()[0] - CREATE_TIME for each in messages], pa.int8()),
        "key": lambda: pa.array([each.key() for each in messages], pa.binary()),
        "value": lambda: pa.array([each.value() for each in messages], pa.binary()),
        "headers": lambda: pa.array([_headers(each) for each in messages], HEADERS),
    }
    return pa.RecordBatch.from_arrays([arrays[name]() for name in columns], names=list(columns))
