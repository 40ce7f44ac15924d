"""Records of `__consumer_offsets`, byte for byte as Kafka writes them.

| bytes | key | | bytes | value |
|---|---|---|---|---|
| 2 | type: 0 and 1 offset commit, 2 group metadata, others in `records` of each kind of group | | 2 | version |
| rest | the key message, version 0 | | rest | the value message in that version |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, SupportsIndex, TypeAlias

from kraft.broker.coordinator.shard import Record, StoredRecord
from kraft.broker.groups.classic.group import ClassicGroup
from kraft.broker.groups.classic.member import Member
from kraft.broker.groups.consumer.group import ConsumerGroup
from kraft.broker.groups.consumer.records import TYPES, decode_change
from kraft.broker.groups.offsets import CommittedOffset
from kraft.broker.groups.share.group import ShareGroup
from kraft.broker.groups.streams.group import StreamsGroup
from kraft.protocol.message import Message
from kraft.protocol.messages.group_metadata_key import GroupMetadataKey
from kraft.protocol.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kraft.protocol.messages.offset_commit_key import OffsetCommitKey
from kraft.protocol.messages.offset_commit_value import OffsetCommitValue
from kraft.protocol.record_frames import GROUPS
from kraft.structs import immutable
from kraft_native.base.errors import ProtocolError

LEGACY_OFFSET_COMMIT_TYPE = 0
OFFSET_COMMIT_TYPE = 1
GROUP_METADATA_TYPE = 2

GROUP_METADATA_VERSION = 3
OFFSET_COMMIT_VERSION = 4
OFFSET_COMMIT_VERSION_WITH_EXPIRY = 1   # the only one with the expiry time that old clients send
CHANGE_VERSION = 0
SHARE_TYPES = range(10, 16)
"""Types of the records of share groups. No released version has written values of type 9, which Kafka skips."""
STREAMS_TYPES = (17, *range(19, 24))
"""Types of the records of streams groups. No released version has written values of type 18, which Kafka skips."""


@immutable
class GroupReplay:
    """Record of a group; None for its tombstone."""

    group_id: str
    value: GroupMetadataValue | None


@immutable
class OffsetReplay:
    """Record of a commit; None for its tombstone."""

    group_id: str
    topic: str
    partition: int
    offset: CommittedOffset | None


class GroupChange(Protocol):
    """Change of a consumer, share or streams group: a record.

    The last field of its tuple is the value. None or False is a tombstone.
    """

    def apply(self, group: Any) -> None:
        """Apply the change to a group of its kind."""

    def frame(self, group_id: str) -> tuple[Message, Message | None]:
        """Return key and value of the record."""

    def __getitem__(self, index: SupportsIndex) -> Any:
        """Return a field."""


@immutable
class ChangeReplay:
    """Record of a consumer, share or streams group."""

    group_id: str
    kind: type[ConsumerGroup | ShareGroup | StreamsGroup]
    change: GroupChange


Replay: TypeAlias = GroupReplay | OffsetReplay | ChangeReplay


def deletes(change: GroupChange) -> bool:
    """Return whether the record of a change is a tombstone."""
    return change[-1] is None or change[-1] is False


# -------------------------------------------------------------------- writing

def record_of(group_id: str, change: GroupChange, now_ms: int) -> Record:
    """Return the record of a change of a consumer, share or streams group."""
    key, value = change.frame(group_id)
    return Record(GROUPS.encode_key(key), None if value is None else GROUPS.encode_value(value, CHANGE_VERSION), now_ms)


def group_key(group_id: str) -> bytes:
    return GROUPS.encode_key(GroupMetadataKey(group=group_id))


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    return GROUPS.encode_key(OffsetCommitKey(group=group_id, topic=topic, partition=partition))


def group_record(group_id: str, value: GroupMetadataValue | None, now_ms: int) -> Record:
    """Return the record of a group; its tombstone for None."""
    encoded = None if value is None else GROUPS.encode_value(value, GROUP_METADATA_VERSION)
    return Record(group_key(group_id), encoded, now_ms)


def offset_record(group_id: str, topic: str, partition: int, offset: CommittedOffset | None, now_ms: int) -> Record:
    """Return the record of a commit; its tombstone for None."""
    encoded = None
    if offset is not None:
        version = OFFSET_COMMIT_VERSION if offset.expire_timestamp_ms == -1 else OFFSET_COMMIT_VERSION_WITH_EXPIRY
        value = OffsetCommitValue(
            offset=offset.offset,
            leader_epoch=offset.leader_epoch,
            metadata=offset.metadata,
            commit_timestamp=offset.commit_timestamp_ms,
            expire_timestamp=offset.expire_timestamp_ms,
            topic_id=offset.topic_id,
        )
        encoded = GROUPS.encode_value(value, version)
    return Record(offset_key(group_id, topic, partition), encoded, now_ms)


def new_group_value(now_ms: int) -> GroupMetadataValue:
    """Return the value of a group that no member joined yet."""
    return GroupMetadataValue(protocol_type="", generation=0, protocol=None, leader=None,
                              current_state_timestamp=now_ms, members=[])


def empty_group_value(group: ClassicGroup, now_ms: int) -> GroupMetadataValue:
    """Return the next generation of `group`, which has no members."""
    return GroupMetadataValue(protocol_type=group.protocol_type or "", generation=group.generation_id + 1,
                              protocol=None, leader=None, current_state_timestamp=now_ms, members=[])


def stable_group_value(group: ClassicGroup, assignments: Mapping[str, bytes], now_ms: int) -> GroupMetadataValue:
    """Return the current generation of `group` with these assignments, empty for a member without one."""
    members = [member_metadata(member, group.protocol_name, assignments.get(member.member_id, b""))
               for member in group.members.values()]
    return GroupMetadataValue(protocol_type=group.protocol_type or "", generation=group.generation_id,
                              protocol=group.protocol_name, leader=group.leader_id,
                              current_state_timestamp=now_ms, members=members)


def member_metadata(member: Member, protocol_name: str | None, assignment: bytes) -> MemberMetadata:
    """Return the part of the group's record for one member."""
    assert protocol_name is not None, "members are written with the protocol that was selected"
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol_name),
        assignment=assignment,
    )


# -------------------------------------------------------------------- reading

def decode(record: StoredRecord) -> Replay | None:
    """Decode `record`; None for a key type that this version does not know (Kafka skips it too).

    Raises a KraftError when a key or value is malformed, or its version is unknown.
    """
    if len(record.key) < 2:
        raise ProtocolError(f"group record at offset {record.offset}: a key of {len(record.key)} bytes")
    type_ = key_type(record.key)
    if type_ in (OFFSET_COMMIT_TYPE, LEGACY_OFFSET_COMMIT_TYPE):
        return _decode_offset(record)
    if type_ == GROUP_METADATA_TYPE:
        key = GroupMetadataKey.decode(record.key[2:], 0)
        value = None
        if record.value is not None:
            value = GroupMetadataValue.decode(record.value[2:], _version(record.value))
        return GroupReplay(key.group, value)
    if type_ in TYPES or type_ in SHARE_TYPES or type_ in STREAMS_TYPES:
        return _decode_change(record, type_)
    return None


def _decode_offset(record: StoredRecord) -> OffsetReplay:
    key = OffsetCommitKey.decode(record.key[2:], 0)
    offset = None
    if record.value is not None:
        value = OffsetCommitValue.decode(record.value[2:], _version(record.value))
        offset = CommittedOffset.of_record(value, record.offset)
    return OffsetReplay(key.group, key.topic, key.partition, offset)


def _decode_change(record: StoredRecord, type_: int) -> ChangeReplay:
    key: Any = GROUPS.decode_key(record.key)
    value = None if record.value is None else GROUPS.decode_value(key, record.value)[0]
    if type_ in SHARE_TYPES:
        # Imported here: a node without share groups starts without the classes of their records.
        from kraft.broker.groups.share.records import decode_change as decode_share_change
        return ChangeReplay(key.group_id, ShareGroup, decode_share_change(key, value))
    if type_ in STREAMS_TYPES:
        # Imported here for the same reason.
        from kraft.broker.groups.streams.records import decode_change as decode_streams_change
        return ChangeReplay(key.group_id, StreamsGroup, decode_streams_change(key, value))
    change = decode_change(key, value)
    assert change is not None, "a type of consumer groups has no reader"
    return ChangeReplay(key.group_id, ConsumerGroup, change)


def _version(value: bytes) -> int:
    return int.from_bytes(value[:2], "big", signed=True)


def key_type(key: bytes) -> int:
    """Return the type of a record key, its first two bytes."""
    return int.from_bytes(key[:2], "big", signed=True)
