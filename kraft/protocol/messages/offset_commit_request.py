"""OffsetCommitRequest, versions 2 to 10, flexible from 8.

Made by tools/protocol.py from schemas/messages/OffsetCommitRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class OffsetCommitRequestPartition(Struct):
    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata", "unknown_tags")

    def __init__(
        self, *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        committed_metadata: str | None = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_index=r.int32(),
            committed_offset=r.int64(),
            committed_leader_epoch=r.int32() if version >= 6 else -1,
            committed_metadata=r.nullable_string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
        w.int64(self.committed_offset)
        if version >= 6:
            w.int32(self.committed_leader_epoch)
        w.nullable_string(self.committed_metadata)
        w.tags(self.unknown_tags)


class OffsetCommitRequestTopic(Struct):
    __slots__ = ("name", "topic_id", "partitions", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        topic_id: UUID = ZERO_UUID,
        partitions: Iterable[OffsetCommitRequestPartition] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string() if version <= 9 else "",
            topic_id=r.uuid() if version >= 10 else ZERO_UUID,
            partitions=r.structs(OffsetCommitRequestPartition.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string() if version <= 9 else "",
            topic_id=r.uuid() if version >= 10 else ZERO_UUID,
            partitions=(yield from structs_steps(r, OffsetCommitRequestPartition.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version <= 9:
            w.string(self.name)
        if version >= 10:
            w.uuid(self.topic_id)
        w.structs(self.partitions, version)
        w.tags(self.unknown_tags)


class OffsetCommitRequest(Message):
    __slots__ = (
        "group_id", "generation_id_or_member_epoch", "member_id", "group_instance_id", "retention_time_ms", "topics",
        "unknown_tags",
    )
    API_KEY = 8
    VERSIONS = range(2, 11)
    FLEXIBLE_FROM = 8

    def __init__(
        self, *,
        group_id: str = "",
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        retention_time_ms: int = -1,
        topics: Iterable[OffsetCommitRequestTopic] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.group_id = group_id
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.retention_time_ms = retention_time_ms
        self.topics = list(topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group_id=r.string(),
            generation_id_or_member_epoch=r.int32(),
            member_id=r.string(),
            group_instance_id=r.nullable_string() if version >= 7 else None,
            retention_time_ms=r.int64() if version <= 4 else -1,
            topics=r.structs(OffsetCommitRequestTopic.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            group_id=r.string(),
            generation_id_or_member_epoch=r.int32(),
            member_id=r.string(),
            group_instance_id=r.nullable_string() if version >= 7 else None,
            retention_time_ms=r.int64() if version <= 4 else -1,
            topics=(yield from nested_steps(r, OffsetCommitRequestTopic.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.group_id)
        w.int32(self.generation_id_or_member_epoch)
        w.string(self.member_id)
        if version >= 7:
            w.nullable_string(self.group_instance_id)
        elif self.group_instance_id is not None:
            raise absent(self, "group_instance_id", version)
        if version <= 4:
            w.int64(self.retention_time_ms)
        w.structs(self.topics, version)
        w.tags(self.unknown_tags)
