"""Transactions of one partition of `__transaction_state`: the state and its replay."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from kraft.broker.coordinator.answer import Answer
from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.coordinator.shard import Record, Shard, StoredRecord
from kraft.broker.coordinator.shards import Shards
from kraft.broker.transactions import completion, expiry
from kraft.broker.transactions.events import (
    Began,
    Completed,
    CoordinatorLoaded,
    CoordinatorResigned,
    Decided,
    EndReason,
    Fenced,
)
from kraft.broker.transactions.markers import Marking
from kraft.broker.transactions.ports import Environment
from kraft.broker.transactions.records import as_stored, decode, record_of
from kraft.broker.transactions.state import Status, Transaction
from kraft.protocol.error_codes import ErrorCode

FENCING: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


class TransactionShard:
    """State machine of one partition. Only `replay` changes the state that survives a restart."""

    def __init__(self, shard: Shard, environment: Environment) -> None:
        self.shard = shard
        self.environment = environment
        self.transactions: dict[str, Transaction] = {}
        self.marking: dict[str, Marking] = {}
        """Markers that are being written, by transactional id."""
        self.postponed: dict[str, Callable[[], None]] = {}
        """Additions that wait for the end of the previous transaction, by transactional id."""
        self.unwritten: dict[str, None] = {}
        """Transactional ids whose markers are written, and whose *Complete* record could not be appended yet."""
        self._serves = False

    @property
    def now_ms(self) -> int:
        return self.shard.now_ms

    def put(self, transaction: Transaction, reason: EndReason = EndReason.CLIENT) -> None:
        """Write the next value of a transaction. Raises RefusedError when that failed; then nothing changed. `reason`
        is that of a decision."""
        known = self.transactions.get(transaction.transactional_id)
        version = self.environment.cluster.transaction_version
        stored = as_stored(transaction, version)

        def apply() -> None:
            self._apply(transaction.transactional_id, stored)
            if known is None or known.status is not transaction.status:
                self._report(transaction, reason)

        self.shard.write([record_of(transaction, version, self.shard.now_ms)], apply=apply)

    def postpone(self, transactional_id: str, again: Callable[[], None]) -> bool:
        """Run `again` once a prepared transaction is complete, or when `addition_wait_ms` is over. Return False when
        that is 0, when the transaction is not prepared, and when another request waits already."""
        transaction = self.transactions.get(transactional_id)
        wait_ms = self.environment.config.addition_wait_ms
        if transaction is None or not transaction.status.is_prepared:
            return False
        if wait_ms == 0 or transactional_id in self.postponed:
            return False
        self.postponed[transactional_id] = again
        self.shard.after(("addition", transactional_id), wait_ms, partial(self.resume, transactional_id))
        return True

    def resume(self, transactional_id: str) -> None:
        """Run the addition that waits, if any."""
        again = self.postponed.pop(transactional_id, None)
        if again is not None:
            self.shard.timers.cancel(("addition", transactional_id))
            again()

    def _report(self, transaction: Transaction, reason: EndReason) -> None:
        status, identity = transaction.status, (transaction.transactional_id, transaction.producer_id,
                                                transaction.producer_epoch)
        if status is Status.ONGOING:
            self.environment.on_event(Began(*identity))
        elif status.is_prepared:
            self.environment.on_event(Decided(*identity, status is Status.PREPARE_COMMIT, len(transaction.partitions),
                                              reason))
        elif status in (Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT):
            self.environment.on_event(Completed(*identity, status is Status.COMPLETE_COMMIT))

    def write(self, records: list[Record]) -> None:
        """Write records of this partition. Raises RefusedError when that failed; then nothing changed."""
        self.shard.write(records)

    # ---------------------------------------------------------------- replay

    def replay(self, record: StoredRecord) -> None:
        """Apply a record of the log. Raises ProtocolError when it is malformed; then nothing changed."""
        replayed = decode(record)
        if replayed is not None:
            self._apply(*replayed)

    def _apply(self, transactional_id: str, transaction: Transaction | None) -> None:
        if transaction is None:
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = transaction
        if self._serves:
            self._arm(transactional_id, transaction)

    def replay_marker(self, producer_id: int, committed: bool) -> None:
        """Do nothing: no transaction writes to this topic."""

    def loaded(self) -> None:
        """Arm the time-outs, write the markers of decisions that the previous coordinator committed, and schedule the
        expiry."""
        self._serves = True
        self.environment.on_event(CoordinatorLoaded(self.shard.partition, self.shard.leader_epoch,
                                                    len(self.transactions)))
        for transactional_id, transaction in self.transactions.items():
            if transaction.status.is_prepared or transaction.deadline_ms is not None:
                self._arm(transactional_id, transaction)
        expiry.schedule(self)

    def unloaded(self) -> None:
        """Write no further markers: this node stopped coordinating these transactions."""
        self.environment.on_event(CoordinatorResigned(self.shard.partition, self.shard.leader_epoch))
        for marking in self.marking.values():
            marking.cancel()
        self.marking.clear()
        self.unwritten.clear()
        for transactional_id in list(self.postponed):
            self.resume(transactional_id)
        self.transactions.clear()

    def _arm(self, transactional_id: str, transaction: Transaction | None) -> None:
        """Arm what follows from the present state: the time-out, or the markers once the decision is committed."""
        expiry.arm_timeout(self, transactional_id, transaction)
        if transaction is not None and transaction.status.is_prepared:
            self.shard.after_commit(partial(completion.begin, self, transactional_id))


def decide(shards: Shards[TransactionShard], transactional_id: str, answer: Answer[Any], now_ms: int,
           act: Callable[[TransactionShard], None]) -> None:
    """Run `act`, which decides a client's request, in the shard of a transactional id. A refusal becomes the answer.
    That of an older client is reported."""
    try:
        shard, state = shards.for_key(transactional_id, now_ms)
    except RefusedError as refused:
        answer.give(answer.refusal(refused.error))
        return
    try:
        act(state)
    except RefusedError as refused:
        if refused.error in FENCING:
            state.environment.on_event(Fenced(transactional_id, refused.error))
        shard.refuse(answer, refused.error)
