"""OffsetFetchResponse, versions 1 to 10, flexible from 6.

Made by tools/protocol.py from schemas/messages/OffsetFetchResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class OffsetFetchResponsePartition(Struct):
    __slots__ = (
        "partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code", "unknown_tags",
    )

    def __init__(
        self, *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_index=r.int32(),
            committed_offset=r.int64(),
            committed_leader_epoch=r.int32() if version >= 5 else -1,
            metadata=r.nullable_string(),
            error_code=r.int16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
        w.int64(self.committed_offset)
        if version >= 5:
            w.int32(self.committed_leader_epoch)
        w.nullable_string(self.metadata)
        w.int16(self.error_code)
        w.tags(self.unknown_tags)


class OffsetFetchResponseTopic(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        partitions: Iterable[OffsetFetchResponsePartition] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            partitions=r.structs(OffsetFetchResponsePartition.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string(),
            partitions=(yield from structs_steps(r, OffsetFetchResponsePartition.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.structs(self.partitions, version)
        w.tags(self.unknown_tags)


class OffsetFetchResponsePartitions(Struct):
    __slots__ = (
        "partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code", "unknown_tags",
    )

    def __init__(
        self, *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_index=r.int32(),
            committed_offset=r.int64(),
            committed_leader_epoch=r.int32(),
            metadata=r.nullable_string(),
            error_code=r.int16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
        w.int64(self.committed_offset)
        w.int32(self.committed_leader_epoch)
        w.nullable_string(self.metadata)
        w.int16(self.error_code)
        w.tags(self.unknown_tags)


class OffsetFetchResponseTopics(Struct):
    __slots__ = ("name", "topic_id", "partitions", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        topic_id: UUID = ZERO_UUID,
        partitions: Iterable[OffsetFetchResponsePartitions] = (),
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
            partitions=r.structs(OffsetFetchResponsePartitions.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string() if version <= 9 else "",
            topic_id=r.uuid() if version >= 10 else ZERO_UUID,
            partitions=(yield from structs_steps(r, OffsetFetchResponsePartitions.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version <= 9:
            w.string(self.name)
        if version >= 10:
            w.uuid(self.topic_id)
        w.structs(self.partitions, version)
        w.tags(self.unknown_tags)


class OffsetFetchResponseGroup(Struct):
    __slots__ = ("group_id", "topics", "error_code", "unknown_tags")

    def __init__(
        self, *,
        group_id: str = "",
        topics: Iterable[OffsetFetchResponseTopics] = (),
        error_code: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.group_id = group_id
        self.topics = list(topics)
        self.error_code = error_code
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group_id=r.string(),
            topics=r.structs(OffsetFetchResponseTopics.read, version),
            error_code=r.int16(),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            group_id=r.string(),
            topics=(yield from nested_steps(r, OffsetFetchResponseTopics.read_steps, version)),
            error_code=r.int16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.group_id)
        w.structs(self.topics, version)
        w.int16(self.error_code)
        w.tags(self.unknown_tags)


class OffsetFetchResponse(Message):
    __slots__ = ("throttle_time_ms", "topics", "error_code", "groups", "unknown_tags")
    API_KEY = 9
    VERSIONS = range(1, 11)
    FLEXIBLE_FROM = 6

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        topics: Iterable[OffsetFetchResponseTopic] = (),
        error_code: int = 0,
        groups: Iterable[OffsetFetchResponseGroup] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = list(topics)
        self.error_code = error_code
        self.groups = list(groups)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32() if version >= 3 else 0,
            topics=r.structs(OffsetFetchResponseTopic.read, version) if version <= 7 else [],
            error_code=r.int16() if 2 <= version <= 7 else 0,
            groups=r.structs(OffsetFetchResponseGroup.read, version) if version >= 8 else [],
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32() if version >= 3 else 0,
            topics=(yield from nested_steps(r, OffsetFetchResponseTopic.read_steps, version)) if version <= 7 else [],
            error_code=r.int16() if 2 <= version <= 7 else 0,
            groups=(yield from nested_steps(r, OffsetFetchResponseGroup.read_steps, version)) if version >= 8 else [],
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version >= 3:
            w.int32(self.throttle_time_ms)
        if version <= 7:
            w.structs(self.topics, version)
        elif self.topics != []:
            raise absent(self, "topics", version)
        if 2 <= version <= 7:
            w.int16(self.error_code)
        if version >= 8:
            w.structs(self.groups, version)
        elif self.groups != []:
            raise absent(self, "groups", version)
        w.tags(self.unknown_tags)
