"""Decision of InitProducerId with a transactional id: the identity that a client gets.

| state | answer |
|---|---|
| no transaction | a new producer id, epoch 0 |
| Empty, Complete | the next epoch; a new producer id when the epochs are exhausted |
| Ongoing | CONCURRENT_TRANSACTIONS, and the transaction is aborted; with keepPreparedTxn it is kept (KIP-939) |
| Prepare | CONCURRENT_TRANSACTIONS |

A client that presents its identity (KIP-360) is fenced unless that is the present identity, or the one before it. With
the one before it the request repeats one whose answer was lost: the present identity is returned unchanged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.transactions.ending import abort_by_coordinator
from kraft.broker.transactions.producer_id import needed
from kraft.broker.transactions.state import NO_EPOCH, NO_ID, NO_TIME, Identity, Status, Transaction
from kraft.protocol.error_codes import ErrorCode


class InitRequest(NamedTuple):
    """Request in the terms of the decision. `expected` is the identity that the client presents, if any."""

    transactional_id: str
    timeout_ms: int
    expected: Identity | None
    keeps_prepared: bool
    transaction_version: int
    """Level of the cluster, for aborts by the coordinator."""


class Initialised(NamedTuple):
    """Decision. `transaction` is to be written, None: nothing. `identity` None: an open transaction is being ended, and
    the client must repeat the request. `kept` is the identity of the prepared transaction that stays open."""

    transaction: Transaction | None
    identity: Identity | None
    kept: Identity | None = None


def init_producer(transaction: Transaction | None, request: InitRequest, now_ms: int,
                  new_producer_id: int | None) -> Initialised:
    """Return the decision. Refuses with PRODUCER_FENCED or CONCURRENT_TRANSACTIONS. Raises ProducerIdNeededError when
    it needs a `new_producer_id` and has none."""
    if transaction is None:
        producer_id = needed(new_producer_id)
        created = Transaction(request.transactional_id, producer_id, 0, request.timeout_ms, update_ms=now_ms,
                              previous_producer_id=producer_id)
        return Initialised(created, created.client)
    is_repetition = _check_expected(transaction, request.expected)
    if transaction.status.is_prepared:
        raise RefusedError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if is_repetition:
        return Initialised(None, transaction.client, _kept(transaction) if request.keeps_prepared else None)
    if transaction.status is not Status.ONGOING:
        renewed = _renewed(transaction, request, now_ms, new_producer_id)
        return Initialised(renewed, renewed.client)
    if request.keeps_prepared:
        recovered = _recovered(transaction, request, now_ms, new_producer_id)
        return Initialised(recovered, recovered.client, _kept(recovered))
    aborted = abort_by_coordinator(transaction, request.transaction_version, now_ms, new_producer_id)
    return Initialised(aborted, None)


def _check_expected(transaction: Transaction, expected: Identity | None) -> bool:
    """Return whether the request is a repetition. Refuses a client with a fenced identity."""
    client = transaction.client
    if expected is None or expected == client:
        return False
    if transaction.status.is_prepared and expected.producer_id in (client.producer_id, transaction.producer_id):
        return False        # answered with CONCURRENT_TRANSACTIONS; the epoch is checked when the markers are written
    is_previous = (expected.producer_id == client.producer_id
                   or (expected.producer_id == transaction.previous_producer_id and expected.is_exhausted))
    if is_previous and expected.epoch == transaction.last_producer_epoch != NO_EPOCH:
        return True
    raise RefusedError(ErrorCode.PRODUCER_FENCED)


def _kept(transaction: Transaction) -> Identity | None:
    if transaction.next_producer_id == NO_ID:
        return None
    return Identity(transaction.producer_id, transaction.producer_epoch)


def _renewed(transaction: Transaction, request: InitRequest, now_ms: int, new_producer_id: int | None) -> Transaction:
    """Return the transaction with the next identity, without partitions."""
    client = transaction.client
    identity = (Identity(needed(new_producer_id), 0) if client.is_exhausted
                else Identity(client.producer_id, client.epoch + 1))
    return replace(
        transaction, producer_id=identity.producer_id, producer_epoch=identity.epoch, timeout_ms=request.timeout_ms,
        status=Status.EMPTY, partitions=(), start_ms=NO_TIME, update_ms=now_ms,
        previous_producer_id=client.producer_id, next_producer_id=NO_ID, next_producer_epoch=NO_EPOCH,
        last_producer_epoch=NO_EPOCH if request.expected is None else client.epoch)


def _recovered(transaction: Transaction, request: InitRequest, now_ms: int,
               new_producer_id: int | None) -> Transaction:
    """Return the open transaction with another identity for its client. The partitions know it by the old one, so the
    new one has another producer id."""
    client = transaction.client
    is_first = transaction.next_producer_id == NO_ID
    identity = (Identity(needed(new_producer_id), 0) if is_first or client.is_exhausted
                else Identity(client.producer_id, client.epoch + 1))
    return replace(
        transaction, timeout_ms=request.timeout_ms, update_ms=now_ms, previous_producer_id=client.producer_id,
        next_producer_id=identity.producer_id, next_producer_epoch=identity.epoch,
        last_producer_epoch=NO_EPOCH if request.expected is None else client.epoch)
