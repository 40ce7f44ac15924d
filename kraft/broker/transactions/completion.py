"""End of a decided transaction: its markers, then its *Complete* record."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.transactions.ending import completed
from kraft.broker.transactions.markers import Decision, Marking
from kraft.broker.transactions.state import Status

if TYPE_CHECKING:
    from kraft.broker.transactions.shard import TransactionShard

WRITE_AGAIN_MS: Final = 100


def begin(state: TransactionShard, transactional_id: str) -> None:
    """Queue the markers of a transaction whose decision is committed."""
    transaction = state.transactions.get(transactional_id)
    if transaction is None or not transaction.status.is_prepared or transactional_id in state.marking:
        return
    decision = Decision(transaction.producer_id, transaction.producer_epoch,
                        transaction.status is Status.PREPARE_COMMIT, transaction.client_version)
    marking = Marking(decision, transaction.partitions, lambda: state.shard.leader_epoch,
                      partial(finish, state, transactional_id))
    state.marking[transactional_id] = marking
    if marking.missing:
        state.environment.markers.add(marking, state.now_ms)
    else:
        finish(state, transactional_id)


def finish(state: TransactionShard, transactional_id: str) -> None:
    """Write that all markers of the transaction are written, and again later when that fails."""
    transaction = state.transactions.get(transactional_id)
    if transaction is None or not transaction.status.is_prepared:
        return
    try:
        state.put(completed(transaction, state.now_ms))
    except RefusedError:
        state.unwritten[transactional_id] = None
        state.shard.after(("completion", transactional_id), WRITE_AGAIN_MS, partial(finish, state, transactional_id))
    else:
        state.marking.pop(transactional_id, None)
        state.unwritten.pop(transactional_id, None)
        state.resume(transactional_id)
