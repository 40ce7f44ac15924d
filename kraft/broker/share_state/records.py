"""Records of `__share_group_state`, byte for byte as Kafka writes them.

| bytes | key | | bytes | value |
|---|---|---|---|---|
| 2 | type: 0 snapshot, 1 update | | 2 | version 0 |
| rest | ShareSnapshotKey or ShareUpdateKey, version 0 | | rest | ShareSnapshotValue or ShareUpdateValue |

A snapshot without a value deletes the state of its share partition.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import starmap
from struct import Struct
from typing import Any, Final, NamedTuple

from kraft.broker.coordinator.shard import Record, StoredRecord
from kraft.broker.share_state.batches import StateBatch
from kraft.broker.share_state.state import NO_COUNT, ShareKey, Snapshot, Update
from kraft.protocol.messages.share_snapshot_key import ShareSnapshotKey
from kraft.protocol.messages.share_snapshot_value import ShareSnapshotValue
from kraft.protocol.messages.share_update_key import ShareUpdateKey
from kraft.protocol.record_frames import SHARE_STATES
from kraft_native.base.errors import ProtocolError

SNAPSHOT_TYPE: Final = ShareSnapshotKey.API_KEY
UPDATE_TYPE: Final = ShareUpdateKey.API_KEY
VALUE_VERSION: Final = 0
SNAPSHOT_HEAD: Final = Struct(">hiiiqqq")
"""Version of the value; epochs of snapshot, state and leader; start offset, times of creation and of the write."""
UPDATE_HEAD: Final = Struct(">hiiq")
"""Version of the value; epochs of snapshot and leader, start offset."""
BATCH: Final = Struct(">qqbhx")
"""First and last offset, state, count, and no tagged fields."""
COUNT_TAG: Final = Struct(">BBBi")
"""One tagged field, its tag, its size, and the count of finished deliveries."""
NO_TAGS: Final = b"\0"


class Replayed(NamedTuple):
    """Decoded record. `content` None deletes the state."""

    key: ShareKey
    content: Snapshot | Update | None


def record_of(key: ShareKey, content: Snapshot | Update, now_ms: int) -> Record:
    """Return the record with this content."""
    if isinstance(content, Snapshot):
        head = SNAPSHOT_HEAD.pack(VALUE_VERSION, content.snapshot_epoch, content.state_epoch, content.leader_epoch,
                                  content.start_offset, content.create_ms, content.write_ms)
    else:
        head = UPDATE_HEAD.pack(VALUE_VERSION, content.snapshot_epoch, content.leader_epoch, content.start_offset)
    count = content.delivery_complete_count
    tags = NO_TAGS if count == NO_COUNT else COUNT_TAG.pack(1, 0, 4, count)
    kind = SNAPSHOT_TYPE if isinstance(content, Snapshot) else UPDATE_TYPE
    value = b"".join((head, _length(len(content.batches)), *starmap(BATCH.pack, content.batches), tags))
    return Record(_key(kind, key), value, now_ms)


def tombstone_of(key: ShareKey, now_ms: int) -> Record:
    """Return the record that deletes the state of a share partition."""
    return Record(_key(SNAPSHOT_TYPE, key), None, now_ms)


def decode(record: StoredRecord) -> Replayed | None:
    """Decode a record; None for one that changes nothing: of a type that this version does not know, or an update
    without a value.

    Raises a KraftError when a key or value is malformed, or its version is unknown.
    """
    if len(record.key) < 2:
        raise ProtocolError(f"share state record at offset {record.offset}: a key of {len(record.key)} bytes")
    kind = int.from_bytes(record.key[:2], "big", signed=True)
    if kind not in (SNAPSHOT_TYPE, UPDATE_TYPE):
        return None
    message: Any = SHARE_STATES.decode_key(record.key)
    key = ShareKey(message.group_id, message.topic_id, message.partition)
    if record.value is None:
        return Replayed(key, None) if kind == SNAPSHOT_TYPE else None
    value: Any = SHARE_STATES.decode_value(message, record.value)[0]
    batches = _batches(value.state_batches)
    if isinstance(value, ShareSnapshotValue):
        return Replayed(key, Snapshot(
            value.snapshot_epoch, value.state_epoch, value.leader_epoch, value.start_offset,
            value.delivery_complete_count, value.create_timestamp, value.write_timestamp, batches))
    return Replayed(key, Update(value.snapshot_epoch, value.leader_epoch, value.start_offset,
                                value.delivery_complete_count, batches))


def _batches(structs: Iterable[Any]) -> tuple[StateBatch, ...]:
    return tuple(StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
                 for each in structs)


def _key(kind: int, key: ShareKey) -> bytes:
    message = ShareSnapshotKey if kind == SNAPSHOT_TYPE else ShareUpdateKey
    return SHARE_STATES.encode_key(message(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition))


def _length(count: int) -> bytes:
    """Return the length of a compact array: its number of elements and one, seven bits a byte, the lowest first."""
    left, found = count + 1, bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)
