"""RemotePartitionDeleteMetadataRecord, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/RemotePartitionDeleteMetadataRecord.json: change that.
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


class RemotePartitionDeleteMetadataRecord(Message):
    __slots__ = (
        "topic_id_partition", "broker_id", "event_timestamp_ms", "remote_partition_delete_state", "unknown_tags",
    )
    API_KEY = 2
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        topic_id_partition: TopicIdPartitionEntry | None = None,
        broker_id: int = 0,
        event_timestamp_ms: int = 0,
        remote_partition_delete_state: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.topic_id_partition = TopicIdPartitionEntry() if topic_id_partition is None else topic_id_partition
        self.broker_id = broker_id
        self.event_timestamp_ms = event_timestamp_ms
        self.remote_partition_delete_state = remote_partition_delete_state
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic_id_partition=TopicIdPartitionEntry.read(r, version),
            broker_id=r.int32(),
            event_timestamp_ms=r.int64(),
            remote_partition_delete_state=r.int8(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        self.topic_id_partition.write(w, version)
        w.int32(self.broker_id)
        w.int64(self.event_timestamp_ms)
        w.int8(self.remote_partition_delete_state)
        w.tags(self.unknown_tags)
