"""DescribeShareGroupOffsetsResponse, versions 0 to 1, flexible from 0.

Made by tools/protocol.py from schemas/messages/DescribeShareGroupOffsetsResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class DescribeShareGroupOffsetsResponsePartition(Struct):
    __slots__ = (
        "partition_index", "start_offset", "leader_epoch", "lag", "error_code", "error_message", "unknown_tags",
    )

    def __init__(
        self, *,
        partition_index: int = 0,
        start_offset: int = 0,
        leader_epoch: int = 0,
        lag: int = -1,
        error_code: int = 0,
        error_message: str | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_index = partition_index
        self.start_offset = start_offset
        self.leader_epoch = leader_epoch
        self.lag = lag
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_index=r.int32(),
            start_offset=r.int64(),
            leader_epoch=r.int32(),
            lag=r.int64() if version >= 1 else -1,
            error_code=r.int16(),
            error_message=r.nullable_string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
        w.int64(self.start_offset)
        w.int32(self.leader_epoch)
        if version >= 1:
            w.int64(self.lag)
        w.int16(self.error_code)
        w.nullable_string(self.error_message)
        w.tags(self.unknown_tags)


class DescribeShareGroupOffsetsResponseTopic(Struct):
    __slots__ = ("topic_name", "topic_id", "partitions", "unknown_tags")

    def __init__(
        self, *,
        topic_name: str = "",
        topic_id: UUID = ZERO_UUID,
        partitions: Iterable[DescribeShareGroupOffsetsResponsePartition] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic_name=r.string(),
            topic_id=r.uuid(),
            partitions=r.structs(DescribeShareGroupOffsetsResponsePartition.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topic_name=r.string(),
            topic_id=r.uuid(),
            partitions=(yield from structs_steps(r, DescribeShareGroupOffsetsResponsePartition.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.topic_name)
        w.uuid(self.topic_id)
        w.structs(self.partitions, version)
        w.tags(self.unknown_tags)


class DescribeShareGroupOffsetsResponseGroup(Struct):
    __slots__ = ("group_id", "topics", "error_code", "error_message", "unknown_tags")

    def __init__(
        self, *,
        group_id: str = "",
        topics: Iterable[DescribeShareGroupOffsetsResponseTopic] = (),
        error_code: int = 0,
        error_message: str | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.group_id = group_id
        self.topics = list(topics)
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group_id=r.string(),
            topics=r.structs(DescribeShareGroupOffsetsResponseTopic.read, version),
            error_code=r.int16(),
            error_message=r.nullable_string(),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            group_id=r.string(),
            topics=(yield from nested_steps(r, DescribeShareGroupOffsetsResponseTopic.read_steps, version)),
            error_code=r.int16(),
            error_message=r.nullable_string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.group_id)
        w.structs(self.topics, version)
        w.int16(self.error_code)
        w.nullable_string(self.error_message)
        w.tags(self.unknown_tags)


class DescribeShareGroupOffsetsResponse(Message):
    __slots__ = ("throttle_time_ms", "groups", "unknown_tags")
    API_KEY = 90
    VERSIONS = range(2)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        groups: Iterable[DescribeShareGroupOffsetsResponseGroup] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = list(groups)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32(),
            groups=r.structs(DescribeShareGroupOffsetsResponseGroup.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32(),
            groups=(yield from nested_steps(r, DescribeShareGroupOffsetsResponseGroup.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        w.structs(self.groups, version)
        w.tags(self.unknown_tags)
