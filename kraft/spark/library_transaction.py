"""A transaction through the client library (librdkafka), with security that our own connections lack (`own_security`).
Staged batches are split again into an object per record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import confluent_kafka
import pyarrow as pa
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AdminClient

from kraft.client.library_errors import library_error
from kraft.log_dir import TopicPartition
from kraft.spark.client_options import library_settings
from kraft.spark.library_produce import send_record
from kraft.spark.produce import cached_counts
from kraft.spark.write_options import WriteOptions
from kraft_native.columns.reader import ColumnReader

COLUMNS: Final = ("timestamp", "key", "value", "headers")

Answer = TypeVar("Answer")


class LibraryTransaction:
    """Implementation of `transactional.Transaction`. Used by one thread."""

    def __init__(self, options: WriteOptions, transactional_id: str) -> None:
        self.options = options
        self.group = transactional_id
        self.timeout = options.timeout_ms / 1000
        self._reader = ColumnReader(COLUMNS, check_crc=False)
        self._producer = self._call(lambda: Producer(library_settings(options.client, **{
            "transactional.id": transactional_id, "transaction.timeout.ms": options.transaction_timeout_ms,
            "compression.type": options.codec})))

    def begin(self) -> None:
        self._call(lambda: self._producer.init_transactions(self.timeout))
        self._call(self._producer.begin_transaction)

    def committed(self) -> list[int]:
        admin = AdminClient(library_settings(self.options.client))
        futures = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self.group)], require_stable=True,
                                                    request_timeout=self.timeout)
        found = self._call(futures[self.group].result)
        return [each.offset for each in found.topic_partitions if each.error is None and each.offset >= 0]

    def send(self, place: TopicPartition, batch: bytes) -> None:
        records = pa.record_batch(self._reader.read(batch))
        times_ms = records["timestamp"].cast(pa.int64()).to_pylist()
        for row, time_ms in zip(records.to_pylist(), times_ms, strict=True):
            self._call(lambda row=row, time_ms=time_ms: send_record(  # type: ignore[misc]
                self._producer, place.topic, row["value"], row["key"], partition=place.partition, timestamp=time_ms,
                headers=[(each["key"], each["value"]) for each in row["headers"]]))

    def commit_offset(self, place: TopicPartition, offset: int, metadata: str) -> None:
        # The group has no members. A consumer that has joined no group has such metadata.
        consumer = Consumer(library_settings(self.options.client, **{"group.id": self.group}))
        try:
            self._call(lambda: self._producer.send_offsets_to_transaction(
                [confluent_kafka.TopicPartition(place.topic, place.partition, offset, metadata)],
                consumer.consumer_group_metadata(), self.timeout))
        finally:
            consumer.close()

    def end(self, *, commit: bool) -> None:
        self._call(lambda: self._producer.commit_transaction(self.timeout) if commit
                   else self._producer.abort_transaction(self.timeout))

    def close(self) -> None:
        """Do nothing: the library closes its connections when the object is deleted."""

    def _call(self, question: Callable[[], Answer]) -> Answer:
        try:
            return question()
        except KafkaException as error:
            raise library_error(f"{self.options.bootstrap}: transaction {self.group}", error.args[0]) from error


def library_counts(options: WriteOptions) -> Callable[[str], int]:
    """Return a function that returns the number of partitions of a topic; see `cached_counts`."""
    admin = AdminClient(library_settings(options.client))

    def count(topic: str) -> int:
        try:
            futures = admin.describe_topics(TopicCollection([topic]), request_timeout=options.timeout_ms / 1000)
            return len(futures[topic].result().partitions)
        except KafkaException as error:
            raise library_error(f"{options.bootstrap}: topic {topic}", error.args[0]) from error

    return cached_counts(options, count)
