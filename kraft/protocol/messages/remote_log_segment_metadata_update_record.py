"""RemoteLogSegmentMetadataUpdateRecord, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/RemoteLogSegmentMetadataUpdateRecord.json: change that.
"""

from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter


class TopicIdPartitionEntry(Struct):
    __slots__ = ("name", "id", "partition", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        id: UUID = ZERO_UUID,
        partition: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.id = id
        self.partition = partition
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            id=r.uuid(),
            partition=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.uuid(self.id)
        w.int32(self.partition)
        w.tags(self.unknown_tags)


class RemoteLogSegmentIdEntry(Struct):
    __slots__ = ("topic_id_partition", "id", "unknown_tags")

    def __init__(
        self, *,
        topic_id_partition: TopicIdPartitionEntry | None = None,
        id: UUID = ZERO_UUID,
        unknown_tags: Tags = (),
    ) -> None:
        self.topic_id_partition = TopicIdPartitionEntry() if topic_id_partition is None else topic_id_partition
        self.id = id
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic_id_partition=TopicIdPartitionEntry.read(r, version),
            id=r.uuid(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        self.topic_id_partition.write(w, version)
        w.uuid(self.id)
        w.tags(self.unknown_tags)


class RemoteLogSegmentMetadataUpdateRecord(Message):
    __slots__ = (
        "remote_log_segment_id", "broker_id", "event_timestamp_ms", "custom_metadata", "remote_log_segment_state",
        "unknown_tags",
    )
    API_KEY = 1
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        remote_log_segment_id: RemoteLogSegmentIdEntry | None = None,
        broker_id: int = 0,
        event_timestamp_ms: int = 0,
        custom_metadata: bytes | None = None,
        remote_log_segment_state: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.remote_log_segment_id = (
            RemoteLogSegmentIdEntry() if remote_log_segment_id is None else remote_log_segment_id
        )
        self.broker_id = broker_id
        self.event_timestamp_ms = event_timestamp_ms
        self.custom_metadata = custom_metadata
        self.remote_log_segment_state = remote_log_segment_state
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            remote_log_segment_id=RemoteLogSegmentIdEntry.read(r, version),
            broker_id=r.int32(),
            event_timestamp_ms=r.int64(),
            custom_metadata=r.nullable_blob(),
            remote_log_segment_state=r.int8(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        self.remote_log_segment_id.write(w, version)
        w.int32(self.broker_id)
        w.int64(self.event_timestamp_ms)
        w.nullable_blob(self.custom_metadata)
        w.int8(self.remote_log_segment_state)
        w.tags(self.unknown_tags)
