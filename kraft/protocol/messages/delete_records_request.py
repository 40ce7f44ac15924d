"""DeleteRecordsRequest, versions 0 to 2, flexible from 2.

Made by tools/protocol.py from schemas/messages/DeleteRecordsRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class DeleteRecordsPartition(Struct):
    __slots__ = ("partition_index", "offset", "unknown_tags")

    def __init__(
        self, *,
        partition_index: int = 0,
        offset: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_index = partition_index
        self.offset = offset
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_index=r.int32(),
            offset=r.int64(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
        w.int64(self.offset)
        w.tags(self.unknown_tags)


class DeleteRecordsTopic(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        partitions: Iterable[DeleteRecordsPartition] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            partitions=r.structs(DeleteRecordsPartition.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string(),
            partitions=(yield from structs_steps(r, DeleteRecordsPartition.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.structs(self.partitions, version)
        w.tags(self.unknown_tags)


class DeleteRecordsRequest(Message):
    __slots__ = ("topics", "timeout_ms", "unknown_tags")
    API_KEY = 21
    VERSIONS = range(3)
    FLEXIBLE_FROM = 2

    def __init__(
        self, *,
        topics: Iterable[DeleteRecordsTopic] = (),
        timeout_ms: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.topics = list(topics)
        self.timeout_ms = timeout_ms
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topics=r.structs(DeleteRecordsTopic.read, version),
            timeout_ms=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topics=(yield from nested_steps(r, DeleteRecordsTopic.read_steps, version)),
            timeout_ms=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.structs(self.topics, version)
        w.int32(self.timeout_ms)
        w.tags(self.unknown_tags)
