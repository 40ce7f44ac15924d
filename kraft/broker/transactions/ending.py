"""Decision of EndTxn, and of aborts by the coordinator.

Clients of transaction.version 0 and 1 keep their epoch; a request must have it. It succeeds in *Ongoing*, and repeats
in the *Complete* state of the same result.

Clients of transaction.version 2 get a higher epoch with each transaction (KIP-890). So a delayed request cannot decide
a later transaction. *Repetition* means the previous epoch, *new* the present one:

| state | abort, repetition | abort, new | commit, repetition | commit, new |
|---|---|---|---|---|
| Empty | PRODUCER_FENCED | ends, without partitions | PRODUCER_FENCED | INVALID_TXN_STATE |
| Ongoing | PRODUCER_FENCED | ends | PRODUCER_FENCED | ends |
| PrepareAbort | CONCURRENT_TRANSACTIONS | CONCURRENT_TRANSACTIONS | PRODUCER_FENCED | CONCURRENT_TRANSACTIONS |
| PrepareCommit | INVALID_TXN_STATE | CONCURRENT_TRANSACTIONS | CONCURRENT_TRANSACTIONS | CONCURRENT_TRANSACTIONS |
| CompleteAbort | done | ends, without partitions | PRODUCER_FENCED | INVALID_TXN_STATE |
| CompleteCommit | INVALID_TXN_STATE | ends, without partitions | done | INVALID_TXN_STATE |

A request with the previous epoch is a repetition only if the transaction that has ended last increased the epoch. Below
transaction.version 2 several transactions have the present epoch, and the last of them says nothing about that of the
request. The client is fenced then, and starts again with InitProducerId.

A repeated commit finds an aborted transaction only if the coordinator aborted it. PRODUCER_FENCED then lets the client
start again (KAFKA-20785). A new abort that finds the previous transaction prepared is legal: EndTxn is answered before
the markers are written, and franz-go aborts transactions whose records it has not sent. The client sends it again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.transactions.producer_id import needed
from kraft.broker.transactions.state import (
    EPOCH_MAX,
    EPOCH_PER_TRANSACTION,
    LAST_CLIENT_EPOCH,
    NO_EPOCH,
    NO_ID,
    Identity,
    Status,
    Transaction,
)
from kraft.protocol.error_codes import ErrorCode

_PREPARED: Final = {True: Status.PREPARE_COMMIT, False: Status.PREPARE_ABORT}
_COMPLETE: Final = {Status.PREPARE_COMMIT: Status.COMPLETE_COMMIT, Status.PREPARE_ABORT: Status.COMPLETE_ABORT}


class EndRequest(NamedTuple):
    """Request of a client in the terms of the decision."""

    identity: Identity
    commits: bool
    client_version: int


class Ended(NamedTuple):
    """Decision. `transaction` is to be written, None: nothing. `identity` is the client's for its next transaction."""

    transaction: Transaction | None
    identity: Identity


def end(transaction: Transaction | None, request: EndRequest, now_ms: int, new_producer_id: int | None) -> Ended:
    """Return the decision; refuses by the table above, and with INVALID_PRODUCER_ID_MAPPING. Raises
    ProducerIdNeededError when it needs a `new_producer_id` and has none."""
    if transaction is None:
        raise RefusedError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if request.client_version < EPOCH_PER_TRANSACTION:
        return _end_in_same_epoch(transaction, request, now_ms)
    is_repetition = _check_epoch(transaction, request.identity)
    status = transaction.status
    if is_repetition:
        return _repeated(transaction, request.commits)
    if request.commits and status is not Status.ONGOING:
        raise RefusedError(ErrorCode.INVALID_TXN_STATE)
    if status is not Status.ONGOING:
        # The transaction ends without partitions: only the epoch changes, so that stuck requests are fenced.
        transaction = replace(transaction, partitions=(), start_ms=now_ms)
    ended = _next_epoch(transaction, _PREPARED[request.commits], request.client_version, now_ms, new_producer_id)
    return Ended(ended, ended.client)


def abort_by_coordinator(transaction: Transaction, transaction_version: int, now_ms: int,
                         new_producer_id: int | None) -> Transaction:
    """Return the open `transaction` as aborted by a time-out or by a new client; its client is fenced.

    The epoch increases exactly once, whatever happens to earlier attempts: a failed write changes nothing. Raises
    ProducerIdNeededError when it needs a `new_producer_id` and has none.
    """
    if transaction_version >= EPOCH_PER_TRANSACTION:
        return _next_epoch(transaction, Status.PREPARE_ABORT, transaction_version, now_ms, new_producer_id)
    client = transaction.client
    fenced = replace(transaction, status=Status.PREPARE_ABORT, update_ms=now_ms,
                     producer_epoch=min(EPOCH_MAX, transaction.producer_epoch + 1),
                     previous_producer_id=client.producer_id, last_producer_epoch=NO_EPOCH, client_version=0)
    if transaction.next_producer_id != NO_ID:
        fenced = replace(fenced, next_producer_epoch=min(EPOCH_MAX, client.epoch + 1))
    return fenced


def completed(transaction: Transaction, now_ms: int) -> Transaction:
    """Return the prepared `transaction` after its last marker was written."""
    client = transaction.client
    return replace(transaction, status=_COMPLETE[transaction.status], partitions=(), update_ms=now_ms,
                   producer_id=client.producer_id, producer_epoch=client.epoch, next_producer_id=NO_ID,
                   next_producer_epoch=NO_EPOCH, previous_producer_id=_previous_id(transaction))


def _end_in_same_epoch(transaction: Transaction, request: EndRequest, now_ms: int) -> Ended:
    client = transaction.client
    if request.identity.producer_id != client.producer_id:
        raise RefusedError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if request.identity.epoch != client.epoch:
        raise RefusedError(ErrorCode.PRODUCER_FENCED)
    prepared = _PREPARED[request.commits]
    if transaction.status is Status.ONGOING:
        return Ended(replace(transaction, status=prepared, update_ms=now_ms, previous_producer_id=client.producer_id,
                             client_version=0), client)
    if transaction.status is prepared:
        raise RefusedError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.status is _COMPLETE[prepared]:
        return Ended(None, client)
    raise RefusedError(ErrorCode.INVALID_TXN_STATE)


def _check_epoch(transaction: Transaction, identity: Identity) -> bool:
    """Return whether the request repeats the previous one. Refuses other identities."""
    client = transaction.client
    if identity.producer_id == client.producer_id:
        is_repetition = transaction.bumps_epoch and identity.epoch + 1 == client.epoch
    elif (identity == (_previous_id(transaction), LAST_CLIENT_EPOCH) and client.epoch == 0):
        is_repetition = True
    else:
        raise RefusedError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.status in (Status.EMPTY, Status.ONGOING):
        is_valid = identity == client
    elif transaction.status.is_prepared:
        if identity == client:
            raise RefusedError(ErrorCode.CONCURRENT_TRANSACTIONS)
        is_valid = is_repetition
    else:
        is_valid = is_repetition or identity == client
    if not is_valid:
        raise RefusedError(ErrorCode.PRODUCER_FENCED)
    return is_repetition


def _repeated(transaction: Transaction, commits: bool) -> Ended:
    prepared = _PREPARED[commits]
    if transaction.status is prepared:
        raise RefusedError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.status is _COMPLETE[prepared]:
        return Ended(None, transaction.client)
    raise RefusedError(ErrorCode.PRODUCER_FENCED if commits else ErrorCode.INVALID_TXN_STATE)


def _next_epoch(transaction: Transaction, status: Status, client_version: int, now_ms: int,
                new_producer_id: int | None) -> Transaction:
    """Return the ended transaction with the next epoch for its markers and for its client.

    A client never gets EPOCH_MAX: after the epoch before it, its next identity is a new producer id. A log of Kafka may
    have EPOCH_MAX in an open transaction (KAFKA-20090). Its markers keep that epoch, and are of an earlier
    transaction.version, which accepts it.
    """
    client = transaction.client
    next_id, next_epoch = transaction.next_producer_id, transaction.next_producer_epoch
    if client.is_exhausted:
        next_id, next_epoch = needed(new_producer_id), 0
    elif next_id != NO_ID:
        next_epoch = client.epoch + 1
    is_last = transaction.producer_epoch >= EPOCH_MAX
    return replace(
        transaction, status=status, update_ms=now_ms, previous_producer_id=client.producer_id,
        producer_epoch=transaction.producer_epoch if is_last else transaction.producer_epoch + 1,
        next_producer_id=next_id, next_producer_epoch=next_epoch, last_producer_epoch=client.epoch,
        client_version=0 if is_last else client_version)


def _previous_id(transaction: Transaction) -> int:
    """Return the previous producer id of the client. Older versions of Kafka do not write it."""
    return transaction.producer_id if transaction.previous_producer_id == NO_ID else transaction.previous_producer_id
