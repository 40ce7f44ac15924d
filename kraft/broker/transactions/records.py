"""Records of `__transaction_state`, byte for byte as Kafka writes them.

| bytes | key | | bytes | value |
|---|---|---|---|---|
| 2 | type 0 | | 2 | version: 0 below transaction.version 1, else 1 |
| rest | TransactionLogKey, version 0 | | rest | TransactionLogValue in that version; no value deletes the id |

Version 1 has tagged fields. Field 4, the last epoch, is of Kafka versions after 4.3.1; that version skips it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

from kraft.broker.coordinator.shard import Record, StoredRecord
from kraft.broker.transactions.state import NO_EPOCH, NO_ID, Status, TopicPartition, Transaction
from kraft.protocol.messages.transaction_log_key import TransactionLogKey
from kraft.protocol.messages.transaction_log_value import PartitionsSchema, TransactionLogValue
from kraft.protocol.record_frames import TRANSACTIONS
from kraft_native.base.errors import ProtocolError

KEY_TYPE: Final = 0
FIRST_TAGGED_VERSION: Final = 1
LAST_EPOCH_TAG: Final = 4
HEAD: Final = Struct(">hqhib")
"""Version of the value, producer id, producer epoch, time-out, status."""
TIMES: Final = Struct(">qq")
TAGGED_ID: Final = Struct(">BBq")
TAGGED_SHORT: Final = Struct(">BBh")
"""Tagged fields: tag, size, value."""
KEYS_CACHED: Final = 4_096
PARTITIONS_CACHED: Final = 16
"""Partitions of one transaction whose encoding is kept: clients write to the same few again and again."""


class Replayed(NamedTuple):
    """Decoded record; `transaction` None deletes the id."""

    transactional_id: str
    transaction: Transaction | None


def record_of(transaction: Transaction, transaction_version: int, now_ms: int) -> Record:
    """Return the record of `transaction` in a cluster with that transaction.version. A second producer id needs the
    newer format in every cluster."""
    is_tagged = transaction_version >= 1 or transaction.next_producer_id != NO_ID
    version = FIRST_TAGGED_VERSION if is_tagged else 0
    partitions = None if transaction.status is Status.EMPTY else transaction.partitions
    is_short = partitions is None or len(partitions) <= PARTITIONS_CACHED
    value = b"".join((
        HEAD.pack(version, transaction.producer_id, transaction.producer_epoch, transaction.timeout_ms,
                  transaction.status),
        (_cached_partitions if is_short else _encoded_partitions)(partitions, version),
        TIMES.pack(transaction.update_ms, transaction.start_ms),
        _encoded_tags(transaction) if is_tagged else b""))
    return Record(_encoded_key(transaction.transactional_id), value, now_ms)


@lru_cache(maxsize=KEYS_CACHED)
def _encoded_key(transactional_id: str) -> bytes:
    return TRANSACTIONS.encode_key(TransactionLogKey(transactional_id=transactional_id))


def _encoded_partitions(partitions: tuple[TopicPartition, ...] | None, version: int) -> bytes:
    """Return the array of partitions, as the schema's own encoder writes it between the fixed fields."""
    value = TransactionLogValue(transaction_partitions=None if partitions is None else _by_topic(partitions))
    return value.encode(version)[HEAD.size - 2:-TIMES.size - (1 if version >= FIRST_TAGGED_VERSION else 0)]


_cached_partitions: Final = lru_cache(maxsize=KEYS_CACHED)(_encoded_partitions)


def _encoded_tags(transaction: Transaction) -> bytes:
    """Return the tagged fields that differ from their defaults, by tag."""
    fields = []
    if transaction.previous_producer_id != NO_ID:
        fields.append(TAGGED_ID.pack(0, 8, transaction.previous_producer_id))
    if transaction.next_producer_id != NO_ID:
        fields.append(TAGGED_ID.pack(1, 8, transaction.next_producer_id))
    if transaction.client_version != 0:
        fields.append(TAGGED_SHORT.pack(2, 2, transaction.client_version))
    if transaction.next_producer_epoch != NO_EPOCH:
        fields.append(TAGGED_SHORT.pack(3, 2, transaction.next_producer_epoch))
    if transaction.last_producer_epoch != NO_EPOCH:
        fields.append(TAGGED_SHORT.pack(LAST_EPOCH_TAG, 2, transaction.last_producer_epoch))
    return bytes((len(fields),)) + b"".join(fields)


def as_stored(transaction: Transaction, transaction_version: int) -> Transaction:
    """Return what `decode` returns for the record of `transaction` in a cluster with that transaction.version."""
    partitions = transaction.partitions
    if transaction_version >= 1 and len(partitions) < 2 and transaction.status is not Status.EMPTY:
        return transaction
    if transaction.status is Status.EMPTY:
        partitions = ()
    elif len(partitions) > 1:
        grouped = _by_topic(partitions)
        partitions = tuple((each.topic, index) for each in grouped for index in each.partition_ids)
    if transaction_version < 1 and transaction.next_producer_id == NO_ID:
        return replace(transaction, partitions=partitions, previous_producer_id=NO_ID, next_producer_epoch=NO_EPOCH,
                       last_producer_epoch=NO_EPOCH, client_version=0)
    return transaction if partitions == transaction.partitions else replace(transaction, partitions=partitions)


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


def _by_topic(partitions: tuple[TopicPartition, ...]) -> list[PartitionsSchema]:
    """Group the partitions by topic, in the order in which the topics were added."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in topics.items()]
