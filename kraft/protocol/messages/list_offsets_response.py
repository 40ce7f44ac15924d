"""ListOffsetsResponse, versions 1 to 11, flexible from 6.

Made by tools/protocol.py from schemas/messages/ListOffsetsResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class ListOffsetsPartitionResponse(Struct):
    __slots__ = ("partition_index", "error_code", "timestamp", "offset", "leader_epoch", "unknown_tags")

    def __init__(
        self, *,
        partition_index: int = 0,
        error_code: int = 0,
        timestamp: int = -1,
        offset: int = -1,
        leader_epoch: int = -1,
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.timestamp = timestamp
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_index=r.int32(),
            error_code=r.int16(),
            timestamp=r.int64(),
            offset=r.int64(),
            leader_epoch=r.int32() if version >= 4 else -1,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
        w.int16(self.error_code)
        w.int64(self.timestamp)
        w.int64(self.offset)
        if version >= 4:
            w.int32(self.leader_epoch)
        elif self.leader_epoch != -1:
            raise absent(self, "leader_epoch", version)
        w.tags(self.unknown_tags)


class ListOffsetsTopicResponse(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        partitions: Iterable[ListOffsetsPartitionResponse] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            partitions=r.structs(ListOffsetsPartitionResponse.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string(),
            partitions=(yield from structs_steps(r, ListOffsetsPartitionResponse.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.structs(self.partitions, version)
        w.tags(self.unknown_tags)


class ListOffsetsResponse(Message):
    __slots__ = ("throttle_time_ms", "topics", "unknown_tags")
    API_KEY = 2
    VERSIONS = range(1, 12)
    FLEXIBLE_FROM = 6

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        topics: Iterable[ListOffsetsTopicResponse] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = list(topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32() if version >= 2 else 0,
            topics=r.structs(ListOffsetsTopicResponse.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32() if version >= 2 else 0,
            topics=(yield from nested_steps(r, ListOffsetsTopicResponse.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version >= 2:
            w.int32(self.throttle_time_ms)
        w.structs(self.topics, version)
        w.tags(self.unknown_tags)
