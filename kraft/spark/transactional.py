"""Publishing in a transaction: the batch's records, and the number of the batch as an offset of a group of the query's
own, become visible together or not at all.

1. The driver begins: earlier drivers of this query can do nothing any more, what they left open is aborted.
2. The group's offset tells which batch was published last; one that is repeated is dropped.
3. The files are sent, the offset is committed in the same transaction, and the transaction ends.

Whoever repeats a batch that came to nothing sends what its tasks staged now: nothing of the earlier attempt is visible
to readers of committed records (`isolation.level=read_committed`). Others see records of aborted transactions.
"""

from __future__ import annotations

from typing import Final, Protocol

from kraft.client import ConnectionFailedError, RefusedError
from kraft.client.groups import committed_offsets
from kraft.client.producing import persist
from kraft.client.transactions import Transactions
from kraft.log_dir import TopicPartition
from kraft.spark.produce import BatchProducer
from kraft.spark.staging import Decision, StagedFile, Staging
from kraft.spark.write_options import WriteOptions

NOTHING: Final = -1


class Transaction(Protocol):
    """The transaction of one batch, of a transactional id that is also the name of the query's group. All raise
    `RefusedError` or `ConnectionFailedError`."""

    def begin(self) -> None:
        """Ends what earlier drivers began, and begins."""

    def committed(self) -> list[int]:
        """The offsets that the group has committed."""

    def send(self, place: TopicPartition, batch: bytes) -> None:
        """Sends a record batch as part of the transaction."""

    def commit_offset(self, place: TopicPartition, offset: int, metadata: str) -> None:
        """Commits an offset of the group as part of the transaction."""

    def end(self, *, commit: bool) -> None:
        """Commits the transaction, or aborts it."""

    def close(self) -> None:
        """Closes connections."""


class TransactionalPublisher:
    """Publishes batches of one query. One thread."""

    def __init__(self, staging: Staging, transaction: Transaction) -> None:
        self.staging = staging
        self.transaction = transaction

    def publish(self, batch_id: int, files: list[StagedFile]) -> None:
        """Makes the batch part of its topics, and closes what was opened for that."""
        try:
            if self._last_noted() < batch_id and files:
                self.transaction.begin()
                if max(self.transaction.committed(), default=0) <= batch_id:
                    self._send(batch_id, files)
                self.staging.decide(Decision(batch_id, done=True))
        finally:
            self.transaction.close()

    def _last_noted(self) -> int:
        """For a cluster forgets the offsets of a group without members after a time (`offsets.retention.minutes`)."""
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
        """So that readers of committed records need not wait until the transaction expires."""
        try:
            self.transaction.end(commit=False)
        except (ConnectionFailedError, RefusedError) as error:
            cause.add_note(f"its transaction is left to expire or to the next driver: {error}")


class ClusterTransaction:
    """By requests of our own: record batches go as they were staged."""

    def __init__(self, options: WriteOptions, transactional_id: str) -> None:
        self.group = transactional_id
        self.timeout = options.timeout_ms / 1000
        self.producer = BatchProducer(options, transactional_id=transactional_id)
        self.transactions = Transactions(self.producer.cluster, transactional_id, timeout=self.timeout,
                                         expiry_ms=options.transaction_timeout_ms)
        self._added: set[TopicPartition] = set()

    def begin(self) -> None:
        self.transactions.begin()
        self.producer.producer_id = self.transactions.producer_id
        self.producer.producer_epoch = self.transactions.producer_epoch

    def committed(self) -> list[int]:
        cluster = self.producer.cluster
        found = persist(self.timeout, lambda: committed_offsets(cluster, self.group, stable=True), cluster.close)
        return [each.offset for each in found.values()]

    def send(self, place: TopicPartition, batch: bytes) -> None:
        if place not in self._added:
            self.transactions.add(place.topic, place.partition)
            self._added.add(place)
        self.producer.send(place, batch)

    def commit_offset(self, place: TopicPartition, offset: int, metadata: str) -> None:
        self.transactions.commit_offset(self.group, (place.topic, place.partition), offset, metadata)

    def end(self, *, commit: bool) -> None:
        self.transactions.end(commit=commit)

    def close(self) -> None:
        self.producer.close()
