"""Decisions of AddPartitionsToTxn and AddOffsetsToTxn: partitions that belong to a transaction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.transactions.state import NO_EPOCH, NO_ID, Identity, Status, TopicPartition, Transaction
from kraft.protocol.error_codes import ErrorCode


def add(transaction: Transaction | None, identity: Identity, partitions: Iterable[TopicPartition], client_version: int,
        now_ms: int) -> Transaction | None:
    """Return the transaction with these partitions, None when it has them already. The first ones open it.

    Refuses with INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS while the previous transaction is
    being ended, and INVALID_TXN_STATE for a prepared transaction that a recovered client has to end.
    """
    transaction = _checked(transaction, identity)
    if transaction.next_producer_id != NO_ID:
        raise RefusedError(ErrorCode.INVALID_TXN_STATE)
    is_open = transaction.status is Status.ONGOING
    known = dict.fromkeys(transaction.partitions if is_open else ())
    count = len(known)
    known.update(dict.fromkeys(partitions))
    if is_open and len(known) == count:
        return None
    # The client uses its epoch: no request with the epoch before is a repetition of the one that got it.
    return replace(transaction, status=Status.ONGOING, partitions=tuple(known), update_ms=now_ms,
                   start_ms=transaction.start_ms if is_open else now_ms, client_version=client_version,
                   last_producer_epoch=NO_EPOCH)


def verify(transaction: Transaction | None, identity: Identity,
           partitions: Iterable[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
    """Return for each partition whether the open transaction has it: NONE or TRANSACTION_ABORTABLE (KIP-890). Refuses
    like `add`."""
    transaction = _checked(transaction, identity)
    known = dict.fromkeys(transaction.partitions if transaction.status is Status.ONGOING else ())
    return {each: ErrorCode.NONE if each in known else ErrorCode.TRANSACTION_ABORTABLE for each in partitions}


def _checked(transaction: Transaction | None, identity: Identity) -> Transaction:
    if transaction is None:
        raise RefusedError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.status.is_prepared:
        # Before the identity: after an exhausted epoch the client has its next one already.
        raise RefusedError(ErrorCode.CONCURRENT_TRANSACTIONS)
    client = transaction.client
    if client.producer_id != identity.producer_id:
        raise RefusedError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if client.epoch != identity.epoch:
        raise RefusedError(ErrorCode.PRODUCER_FENCED)
    return transaction
