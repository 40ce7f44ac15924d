"""ListOffsetsRequest, versions 1 to 11, flexible from 6.

Made by tools/protocol.py from schemas/messages/ListOffsetsRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class ListOffsetsPartition(Struct):
    __slots__ = ("partition_index", "current_leader_epoch", "timestamp", "unknown_tags")

    def __init__(
        self, *,
        partition_index: int = 0,
        current_leader_epoch: int = -1,
        timestamp: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_index = partition_index
        self.current_leader_epoch = current_leader_epoch
        self.timestamp = timestamp
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_index=r.int32(),
            current_leader_epoch=r.int32() if version >= 4 else -1,
            timestamp=r.int64(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
        if version >= 4:
            w.int32(self.current_leader_epoch)
        w.int64(self.timestamp)
        w.tags(self.unknown_tags)


class ListOffsetsTopic(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        partitions: Iterable[ListOffsetsPartition] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            partitions=r.structs(ListOffsetsPartition.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string(),
            partitions=(yield from structs_steps(r, ListOffsetsPartition.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.structs(self.partitions, version)
        w.tags(self.unknown_tags)


class ListOffsetsRequest(Message):
    __slots__ = ("replica_id", "isolation_level", "topics", "timeout_ms", "unknown_tags")
    API_KEY = 2
    VERSIONS = range(1, 12)
    FLEXIBLE_FROM = 6

    def __init__(
        self, *,
        replica_id: int = 0,
        isolation_level: int = 0,
        topics: Iterable[ListOffsetsTopic] = (),
        timeout_ms: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.replica_id = replica_id
        self.isolation_level = isolation_level
        self.topics = list(topics)
        self.timeout_ms = timeout_ms
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            replica_id=r.int32(),
            isolation_level=r.int8() if version >= 2 else 0,
            topics=r.structs(ListOffsetsTopic.read, version),
            timeout_ms=r.int32() if version >= 10 else 0,
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            replica_id=r.int32(),
            isolation_level=r.int8() if version >= 2 else 0,
            topics=(yield from nested_steps(r, ListOffsetsTopic.read_steps, version)),
            timeout_ms=r.int32() if version >= 10 else 0,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.replica_id)
        if version >= 2:
            w.int8(self.isolation_level)
        elif self.isolation_level != 0:
            raise absent(self, "isolation_level", version)
        w.structs(self.topics, version)
        if version >= 10:
            w.int32(self.timeout_ms)
        w.tags(self.unknown_tags)
