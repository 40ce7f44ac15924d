"""Transactions of one partition of `__transaction_state`: the state and its replay."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from kraft.broker.coordinator.shard import Record, Shard, StoredRecord
from kraft.broker.transactions import completion, expiry
from kraft.broker.transactions.config import TransactionCoordinatorConfig
from kraft.broker.transactions.markers import Leaders, MarkerQueue, Marking
from kraft.broker.transactions.records import decode, record_of
from kraft.broker.transactions.state import Transaction


class ClusterView(Leaders, Protocol):
    """Queries of the coordinator to the cluster's metadata."""

    @property
    def transaction_version(self) -> int:
        """Finalised level of transaction.version."""

    def partition_count(self, topic: str) -> int | None:
        """Return the number of partitions of a topic; None when it does not exist."""


class ProducerIdSource(Protocol):
    """Supply of new producer ids."""

    def take(self, now_ms: int, answer: Callable[[int | None], None]) -> None:
        """Give the next id to `answer`, at once or later; None when there is none now."""


class Environment:
    """Common parts of all shards of a coordinator; `config` may be replaced at runtime."""

    __slots__ = ("cluster", "config", "markers", "producer_ids")

    def __init__(self, config: TransactionCoordinatorConfig, cluster: ClusterView, producer_ids: ProducerIdSource,
                 markers: MarkerQueue) -> None:
        self.config = config
        self.cluster = cluster
        self.producer_ids = producer_ids
        self.markers = markers


class TransactionShard:
    """State machine of one partition. Only `replay` changes the state that survives a restart."""

    def __init__(self, shard: Shard, environment: Environment) -> None:
        self.shard = shard
        self.environment = environment
        self.transactions: dict[str, Transaction] = {}
        self.marking: dict[str, Marking] = {}
        """Markers that are being written, by transactional id."""
        self.unwritten: dict[str, None] = {}
        """Transactional ids whose markers are written, and whose *Complete* record could not be appended yet."""
        self._serves = False

    @property
    def now_ms(self) -> int:
        return self.shard.now_ms

    def put(self, transaction: Transaction) -> None:
        """Write the next value of a transaction. Raises RefusedError when that failed; then nothing changed."""
        self.write([record_of(transaction, self.environment.cluster.transaction_version, self.now_ms)])

    def write(self, records: list[Record]) -> None:
        """Write records of this partition. Raises RefusedError when that failed; then nothing changed."""
        self.shard.write(records)

    # ---------------------------------------------------------------- replay

    def replay(self, record: StoredRecord) -> None:
        """Apply a record of the log. Raises ProtocolError when it is malformed; then nothing changed."""
        replayed = decode(record)
        if replayed is None:
            return
        if replayed.transaction is None:
            self.transactions.pop(replayed.transactional_id, None)
        else:
            self.transactions[replayed.transactional_id] = replayed.transaction
        if self._serves:
            self._arm(replayed.transactional_id)

    def replay_marker(self, producer_id: int, committed: bool) -> None:
        """Do nothing: no transaction writes to this topic."""

    def loaded(self) -> None:
        """Arm the time-outs, write the markers of decisions that the previous coordinator committed, and schedule the
        expiry."""
        self._serves = True
        for transactional_id, transaction in self.transactions.items():
            if transaction.status.is_prepared or transaction.deadline_ms is not None:
                self._arm(transactional_id)
        expiry.schedule(self)

    def unloaded(self) -> None:
        """Write no further markers: this node stopped coordinating these transactions."""
        for marking in self.marking.values():
            marking.cancel()
        self.marking.clear()
        self.unwritten.clear()
        self.transactions.clear()

    def _arm(self, transactional_id: str) -> None:
        """Arm what follows from the present state: the time-out, or the markers once the decision is committed."""
        transaction = self.transactions.get(transactional_id)
        expiry.arm_timeout(self, transactional_id, transaction)
        if transaction is not None and transaction.status.is_prepared:
            self.shard.after_commit(partial(completion.begin, self, transactional_id))
