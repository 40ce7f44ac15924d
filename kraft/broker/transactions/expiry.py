"""Time-outs of open transactions, and expiry of transactional ids that no client uses."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.transactions.ending import abort_by_coordinator
from kraft.broker.transactions.events import EndReason
from kraft.broker.transactions.producer_id import ProducerIdNeededError
from kraft.broker.transactions.records import tombstone_of
from kraft.broker.transactions.state import Status, Transaction

if TYPE_CHECKING:
    from kraft.broker.transactions.shard import TransactionShard

ABORT_RETRY_MAX_MS: Final = 1_000
"""Limit of the pause after a failed abort: an open transaction holds back every reader."""
_EXPIRY: Final = ("expiry",)
_UNUSED: Final = (Status.EMPTY, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT)


# -------------------------------------------------------------------- time-outs

def arm_timeout(state: TransactionShard, transactional_id: str, transaction: Transaction | None) -> None:
    """Set the timer of an open transaction, or cancel it."""
    key = ("timeout", transactional_id)
    deadline_ms = None if transaction is None else transaction.deadline_ms
    if deadline_ms is None:
        state.shard.timers.cancel(key)
    else:
        state.shard.at(key, deadline_ms, partial(_time_out, state, transactional_id))


def _time_out(state: TransactionShard, transactional_id: str, new_producer_id: int | None = None) -> None:
    """Abort the transaction if it is still open after its time-out. Another attempt follows when that fails."""
    transaction = state.transactions.get(transactional_id)
    deadline_ms = None if transaction is None else transaction.deadline_ms
    if transaction is None or deadline_ms is None:
        return
    if deadline_ms > state.now_ms:
        arm_timeout(state, transactional_id, transaction)
        return
    version = state.environment.cluster.transaction_version
    try:
        state.put(abort_by_coordinator(transaction, version, state.now_ms, new_producer_id), EndReason.TIMED_OUT)
    except ProducerIdNeededError:
        _again(state, transactional_id)     # for the case that no id comes
        state.environment.producer_ids.take(state.now_ms, partial(_with_id, state, transactional_id))
    except RefusedError:
        _again(state, transactional_id)


def _with_id(state: TransactionShard, transactional_id: str, producer_id: int | None) -> None:
    if producer_id is not None:
        _time_out(state, transactional_id, producer_id)


def _again(state: TransactionShard, transactional_id: str) -> None:
    state.shard.after(("timeout", transactional_id), min(state.environment.config.abort_retry_ms, ABORT_RETRY_MAX_MS),
                      partial(_time_out, state, transactional_id))


# -------------------------------------------------------------------- unused ids

def schedule(state: TransactionShard) -> None:
    """Schedule the next visit of all ids. What cannot be written now is still due then."""
    state.shard.after(_EXPIRY, state.environment.config.expiration_interval_ms,
                      lambda: _visit(state, iter(list(state.transactions))))


def _visit(state: TransactionShard, ids: Iterator[str]) -> None:
    """Visit as many ids as this tick has steps for, and delete the unused ones. The next tick visits the others."""
    count = 1 + state.shard.steps_left
    visited = list(islice(ids, count))
    state.shard.steps_left -= max(0, len(visited) - 1)
    limit_ms = state.now_ms - state.environment.config.id_expiration_ms
    try:
        state.write([tombstone_of(each, state.now_ms) for each in visited
                     if (transaction := state.transactions.get(each)) is not None
                     and transaction.status in _UNUSED and transaction.update_ms <= limit_ms])
    except RefusedError:
        schedule(state)
        return
    if len(visited) < count:
        schedule(state)
    else:
        state.shard.after(_EXPIRY, 0, lambda: _visit(state, ids))
