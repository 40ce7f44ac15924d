"""Publishing in a transaction. The batch's records become visible together with the batch's number, or not at all. The
number is committed as an offset of the query's own group.

1. The driver begins: earlier drivers of this query are fenced, and their open transaction is aborted.

2. The group's offset shows which batch was published last; a repeated batch is dropped.

3. The files are sent, the offset is committed in the same transaction, and the transaction ends.

A driver that repeats a failed batch sends the files that its tasks staged now. Readers of committed records
(`isolation.level=read_committed`) see nothing of the earlier attempt. Others see records of aborted transactions.
"""

from __future__ import annotations

from typing import Final, Protocol

from kraft.client import ConnectionFailedError, RefusedError
from kraft.client.groups import committed_offsets
from kraft.client.retries import persist
from kraft.client.transactions import Transactions
from kraft.log_dir import TopicPartition
from kraft.spark.produce import open_producer
from kraft.spark.staging import Decision, StagedFile, Staging
from kraft.spark.write_options import WriteOptions

NOTHING: Final = -1


class Transaction(Protocol):
    """The transaction of one batch. Its transactional id is also the name of the query's group. All methods raise
    `RefusedError` or `ConnectionFailedError`."""

    def begin(self) -> None:
        """End the transaction of earlier drivers, and begin a new one."""

    def committed(self) -> list[int]:
        """Return the offsets that the group has committed."""

    def send(self, place: TopicPartition, batch: bytes) -> None:
        """Send a record batch as part of the transaction."""

    def commit_offset(self, place: TopicPartition, offset: int, metadata: str) -> None:
        """Commit an offset of the group as part of the transaction."""

    def end(self, *, commit: bool) -> None:
        """Commit the transaction, or abort it."""

    def close(self) -> None:
        """Close the connections."""


class TransactionalPublisher:
    """Publisher of the batches of one query. Used by one thread."""

    def __init__(self, staging: Staging, transaction: Transaction) -> None:
        self.staging = staging
        self.transaction = transaction

    def publish(self, batch_id: int, files: list[StagedFile]) -> None:
        """Publish the batch, and close the transaction's connections."""
        try:
            if self._last_noted() < batch_id and files:
                self.transaction.begin()
                if max(self.transaction.committed(), default=0) <= batch_id:
                    self._send(batch_id, files)
                self.staging.decide(Decision(batch_id, done=True))
        finally:
            self.transaction.close()

    def _last_noted(self) -> int:
        """Return the id of the last batch in the staging directory. The group's offset is not enough: a cluster drops
        the offsets of a group without members after a time (`offsets.retention.minutes`)."""
        decision = self.staging.decision()
        return NOTHING if decision is None else decision.batch_id

    def _send(self, batch_id: int, files: list[StagedFile]) -> None:
        try:
            for place, batch in self.staging.batches(files):
                self.transaction.send(place, batch)
            topic, partition, _ = files[0]
            self.transaction.commit_offset(TopicPartition(topic, partition), batch_id + 1, f"batch {batch_id}")
        except (ConnectionFailedError, RefusedError) as error:
            self._abort(error)
            raise
        self.transaction.end(commit=True)

    def _abort(self, cause: Exception) -> None:
        """Abort the transaction, so that readers of committed records need not wait until it expires."""
        try:
            self.transaction.end(commit=False)
        except (ConnectionFailedError, RefusedError) as error:
            cause.add_note(f"its transaction is left to expire or to the next driver: {error}")


class ClusterTransaction:
    """A transaction of our own requests: record batches are sent as they were staged."""

    def __init__(self, options: WriteOptions, transactional_id: str) -> None:
        self.group = transactional_id
        self.timeout = options.timeout_ms / 1000
        self.producer = open_producer(options, transactional_id=transactional_id)
        self.transactions = Transactions(self.producer.cluster, transactional_id, timeout=self.timeout,
                                         expiry_ms=options.transaction_timeout_ms)
        self._added: set[TopicPartition] = set()

    def begin(self) -> None:
        self.transactions.begin()
        self.producer.adopt((self.transactions.producer_id, self.transactions.producer_epoch),
                            adds_implicitly=self.transactions.adds_implicitly)

    def committed(self) -> list[int]:
        cluster = self.producer.cluster
        found = persist(self.timeout, lambda: committed_offsets(cluster, self.group, stable=True), cluster.close)
        return [each.offset for each in found.values()]

    def send(self, place: TopicPartition, batch: bytes) -> None:
        if place not in self._added:
            self.transactions.add(place.topic, place.partition)
            self._added.add(place)
        self.producer.send({place: batch})

    def commit_offset(self, place: TopicPartition, offset: int, metadata: str) -> None:
        self.transactions.commit_offset(self.group, (place.topic, place.partition), offset, metadata)

    def end(self, *, commit: bool) -> None:
        self.transactions.end(commit=commit)

    def close(self) -> None:
        self.producer.cluster.close()
