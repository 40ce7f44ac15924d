"""AssignReplicasToDirsResponse, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/AssignReplicasToDirsResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class PartitionData(Struct):
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


class TopicData(Struct):
    __slots__ = ("topic_id", "partitions", "unknown_tags")

    def __init__(
        self, *,
        topic_id: UUID = ZERO_UUID,
        partitions: Iterable[PartitionData] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topic_id = topic_id
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic_id=r.uuid(),
            partitions=r.structs(PartitionData.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topic_id=r.uuid(),
            partitions=(yield from structs_steps(r, PartitionData.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.uuid(self.topic_id)
        w.structs(self.partitions, version)
        w.tags(self.unknown_tags)


class DirectoryData(Struct):
    __slots__ = ("id", "topics", "unknown_tags")

    def __init__(
        self, *,
        id: UUID = ZERO_UUID,
        topics: Iterable[TopicData] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.id = id
        self.topics = list(topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            id=r.uuid(),
            topics=r.structs(TopicData.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            id=r.uuid(),
            topics=(yield from nested_steps(r, TopicData.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.uuid(self.id)
        w.structs(self.topics, version)
        w.tags(self.unknown_tags)


class AssignReplicasToDirsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "directories", "unknown_tags")
    API_KEY = 73
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        directories: Iterable[DirectoryData] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.directories = list(directories)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16(),
            directories=r.structs(DirectoryData.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16(),
            directories=(yield from nested_steps(r, DirectoryData.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        w.int16(self.error_code)
        w.structs(self.directories, version)
        w.tags(self.unknown_tags)
