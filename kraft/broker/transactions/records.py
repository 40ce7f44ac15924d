"""Records of `__transaction_state`, byte for byte as Kafka writes them.

| bytes | key | | bytes | value |
|---|---|---|---|---|
| 2 | type 0 | | 2 | version: 0 below transaction.version 1, else 1 |
| rest | TransactionLogKey, version 0 | | rest | TransactionLogValue in that version; no value deletes the id |

Version 1 has tagged fields. Field 4, the last epoch, is of Kafka versions after 4.3.1; that version skips it.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from kraft.broker.coordinator.shard import Record, StoredRecord
from kraft.broker.transactions.state import NO_EPOCH, NO_ID, Status, Transaction
from kraft.protocol.messages.transaction_log_key import TransactionLogKey
from kraft.protocol.messages.transaction_log_value import PartitionsSchema, TransactionLogValue
from kraft.protocol.record_frames import TRANSACTIONS
from kraft_native.base.errors import ProtocolError

KEY_TYPE: Final = 0
FIRST_TAGGED_VERSION: Final = 1
LAST_EPOCH_TAG: Final = 4


class Replayed(NamedTuple):
    """Decoded record; `transaction` None deletes the id."""

    transactional_id: str
    transaction: Transaction | None


def record_of(transaction: Transaction, transaction_version: int, now_ms: int) -> Record:
    """Return the record of `transaction` in a cluster with that transaction.version. A second producer id needs the
    newer format in every cluster."""
    is_tagged = transaction_version >= 1 or transaction.next_producer_id != NO_ID
    value = TransactionLogValue(
        producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms, transaction_status=transaction.status,
        transaction_partitions=None if transaction.status is Status.EMPTY else _by_topic(transaction),
        transaction_last_update_timestamp_ms=transaction.update_ms,
        transaction_start_timestamp_ms=transaction.start_ms)
    if is_tagged:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
        value.next_producer_epoch = transaction.next_producer_epoch
        value.client_transaction_version = transaction.client_version
        if transaction.last_producer_epoch != NO_EPOCH:
            value.unknown_tags = ((LAST_EPOCH_TAG, transaction.last_producer_epoch.to_bytes(2, "big", signed=True)),)
    key = TRANSACTIONS.encode_key(TransactionLogKey(transactional_id=transaction.transactional_id))
    return Record(key, TRANSACTIONS.encode_value(value, FIRST_TAGGED_VERSION if is_tagged else 0), now_ms)


def tombstone_of(transactional_id: str, now_ms: int) -> Record:
    """Return the record that deletes the id."""
    return Record(TRANSACTIONS.encode_key(TransactionLogKey(transactional_id=transactional_id)), None, now_ms)


def decode(record: StoredRecord) -> Replayed | None:
    """Decode `record`; None for a key type that this version does not know (Kafka skips it too).

    Raises a KraftError when a key or value is malformed, or its version is unknown.
    """
    if len(record.key) < 2:
        raise ProtocolError(f"transaction record at offset {record.offset}: a key of {len(record.key)} bytes")
    if int.from_bytes(record.key[:2], "big", signed=True) != KEY_TYPE:
        return None
    key = TransactionLogKey.decode(record.key[2:], 0)
    if record.value is None:
        return Replayed(key.transactional_id, None)
    version = int.from_bytes(record.value[:2], "big", signed=True)
    value = TransactionLogValue.decode(record.value[2:], version)
    if not 0 <= value.transaction_status <= Status.COMPLETE_ABORT:
        raise ProtocolError(f"transaction record at offset {record.offset}: status {value.transaction_status}, allowed "
                            f"are 0 to {Status.COMPLETE_ABORT.value}")
    return Replayed(key.transactional_id, _transaction(key.transactional_id, value))


def _transaction(transactional_id: str, value: TransactionLogValue) -> Transaction:
    return Transaction(
        transactional_id=transactional_id, producer_id=value.producer_id, producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms, status=Status(value.transaction_status),
        partitions=tuple((topic.topic, index) for topic in value.transaction_partitions or ()
                         for index in topic.partition_ids),
        start_ms=value.transaction_start_timestamp_ms, update_ms=value.transaction_last_update_timestamp_ms,
        previous_producer_id=value.previous_producer_id, next_producer_id=value.next_producer_id,
        next_producer_epoch=value.next_producer_epoch, last_producer_epoch=_last_epoch(value),
        client_version=value.client_transaction_version)


def _last_epoch(value: TransactionLogValue) -> int:
    for tag, data in value.unknown_tags:
        if tag == LAST_EPOCH_TAG and len(data) == 2:
            return int.from_bytes(data, "big", signed=True)
    return NO_EPOCH


def _by_topic(transaction: Transaction) -> list[PartitionsSchema]:
    """Group the partitions by topic, in the order in which the topics were added."""
    order = {topic: number for number, (topic, _) in reversed(list(enumerate(transaction.partitions)))}
    ordered = sorted(transaction.partitions, key=lambda each: order[each[0]])
    return [PartitionsSchema(topic=topic, partition_ids=[index for _, index in each])
            for topic, each in groupby(ordered, itemgetter(0))]
