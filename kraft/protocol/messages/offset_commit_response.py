"""OffsetCommitResponse, versions 2 to 10, flexible from 8.

Made by tools/protocol.py from schemas/messages/OffsetCommitResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class OffsetCommitResponsePartition(Struct):
    __slots__ = ("partition_index", "error_code", "unknown_tags")

    def __init__(
        self, *,
        partition_index: int = 0,
        error_code: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_index=r.int32(),
            error_code=r.int16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
        w.int16(self.error_code)
        w.tags(self.unknown_tags)


class OffsetCommitResponseTopic(Struct):
    __slots__ = ("name", "topic_id", "partitions", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        topic_id: UUID = ZERO_UUID,
        partitions: Iterable[OffsetCommitResponsePartition] = (),
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
            partitions=r.structs(OffsetCommitResponsePartition.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string() if version <= 9 else "",
            topic_id=r.uuid() if version >= 10 else ZERO_UUID,
            partitions=(yield from structs_steps(r, OffsetCommitResponsePartition.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version <= 9:
            w.string(self.name)
        if version >= 10:
            w.uuid(self.topic_id)
        w.structs(self.partitions, version)
        w.tags(self.unknown_tags)


class OffsetCommitResponse(Message):
    __slots__ = ("throttle_time_ms", "topics", "unknown_tags")
    API_KEY = 8
    VERSIONS = range(2, 11)
    FLEXIBLE_FROM = 8

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        topics: Iterable[OffsetCommitResponseTopic] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = list(topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32() if version >= 3 else 0,
            topics=r.structs(OffsetCommitResponseTopic.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32() if version >= 3 else 0,
            topics=(yield from nested_steps(r, OffsetCommitResponseTopic.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version >= 3:
            w.int32(self.throttle_time_ms)
        w.structs(self.topics, version)
        w.tags(self.unknown_tags)
