"""Writers of one split's batches, each record exactly once, in one of two ways. A job keeps the way of its plan.

In transactions: the number of the split's chunks that are in the topic is an offset of a group of the split's own. It
is committed in the transaction of these chunks. A new attempt fences the previous one, has its open transaction
aborted, and continues after the committed chunks. Readers of committed records see whole transactions.

By sequence numbers (`producing`), where the cluster has no transactions: a new attempt queries the partitions for the
batches that they have. Readers see records as they arrive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

from kraft.client import Cluster
from kraft.client.groups import commit_offsets, committed_offsets
from kraft.client.producer import Producer
from kraft.client.retries import persist
from kraft.client.transactional_producer import TransactionalProducer
from kraft.client.transactions import GroupMember, Offset
from kraft.pipeline.producing import History, IngestError

# A transaction ends with the chunk that reaches this size. The cluster aborts it when it is open for a minute.
TRANSACTION_BYTES: Final = 16 << 20
# The group's offset is one of this partition, which every topic has.
PROGRESS_PARTITION: Final = 0

Round = Mapping[int, tuple[bytes, int]]
"""Batches with the numbers of their records: at most one for each partition."""


class SplitWriter(Protocol):
    """Writer of the chunks of one split, in their order. Used by one thread."""

    def write(self, rows: int, rounds: Iterable[Round]) -> None:
        """Write the batches of the next chunk, which has so many rows, except those that the topic has."""

    def finish(self) -> int:
        """Complete the split. Return the number of rows that were in the topic before. `IngestError` when the topic has
        more of the split than was written: its file was changed."""


class SequencedWriter:
    """Writer under a producer id that only this split uses. `starts`: ends of the partitions before the job."""

    def __init__(self, cluster: Cluster, topic: str, producer: tuple[int, int], starts: Mapping[int, int]) -> None:
        self._topic = topic
        self._producer = Producer(cluster, producer)
        self._known = History(self._producer, topic, starts).appended()
        self._sent = dict.fromkeys(self._known, 0)

    def write(self, rows: int, rounds: Iterable[Round]) -> None:  # noqa: ARG002 - the batches count them too
        for batches in rounds:
            todo = {}
            for partition, (batch, count) in batches.items():
                # The last existing batch is sent again if the broker can detect it: the broker answers when all
                # replicas have it. Records that were counted in the log are on all replicas.
                place, (before, known) = (self._topic, partition), self._known[partition]
                end = self._sent[partition] + count
                if end > before or (known and end == before):
                    todo[place] = batch
                else:
                    self._producer.skip(place, batch)
                self._sent[partition] = end
            self._producer.send(todo)

    def finish(self) -> int:
        for partition, (known, _) in self._known.items():
            if known > self._sent[partition]:
                raise IngestError(f"{self._topic}-{partition} has more records of this split than it makes: the file "
                                  "was changed")
        return sum(known for known, _ in self._known.values())


class TransactionalWriter:
    """Writer in transactions of `producer`, whose transactional id is also the name of the split's group."""

    def __init__(self, cluster: Cluster, topic: str, transactional_id: str, producer: TransactionalProducer) -> None:
        self._topic = topic
        self._group = transactional_id
        self._producer = producer
        self._committed = self._progress(cluster)
        self._chunks = 0
        self._rows_before = 0
        self._open_bytes = 0

    def write(self, rows: int, rounds: Iterable[Round]) -> None:
        self._chunks += 1
        if self._chunks <= self._committed:
            self._rows_before += rows
            return
        for batches in rounds:
            self._producer.send_batches({(self._topic, partition): batch for partition, (batch, _) in batches.items()})
            self._open_bytes += sum(len(batch) for batch, _ in batches.values())
        if self._open_bytes >= TRANSACTION_BYTES:
            self._commit()

    def finish(self) -> int:
        if self._committed > self._chunks:
            raise IngestError(f"{self._topic} has {self._committed} chunks of this split, which has {self._chunks}: "
                              "the file was changed")
        if self._open_bytes:
            self._commit()
        return self._rows_before

    def _commit(self) -> None:
        self._producer.commit_offsets(GroupMember(self._group), {
            (self._topic, PROGRESS_PARTITION): Offset(self._chunks, f"{self._chunks} chunks")})
        self._producer.commit()
        self._open_bytes = 0

    def _progress(self, cluster: Cluster) -> int:
        found = persist(cluster.timeout, lambda: committed_offsets(cluster, self._group, stable=True), cluster.close)
        if (self._topic, PROGRESS_PARTITION) not in found:
            raise IngestError(f"group {self._group}: the cluster has forgotten how much of the split is in the topic, "
                              "as it does offsets.retention.minutes after the last commit; a new job writes all rows "
                              "again")
        return found[self._topic, PROGRESS_PARTITION].offset


@contextmanager
def transactional_writer(cluster: Cluster, topic: str, transactional_id: str) -> Iterator[TransactionalWriter]:
    """Provide a writer. Earlier ones of the split are fenced. A transaction that is open at the end is aborted."""
    with TransactionalProducer(cluster, transactional_id) as producer:
        yield TransactionalWriter(cluster, topic, transactional_id, producer)


def begin_progress(cluster: Cluster, topic: str, transactional_id: str) -> None:
    """Commit that nothing of a split is in the topic, before its first attempt. So an absent offset is a forgotten
    one."""
    persist(cluster.timeout, lambda: commit_offsets(cluster, transactional_id, {(topic, PROGRESS_PARTITION): 0}),
            cluster.close)
