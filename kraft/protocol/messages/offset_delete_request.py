"""OffsetDeleteRequest, version 0, never flexible.

Made by tools/protocol.py from schemas/messages/OffsetDeleteRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class OffsetDeleteRequestPartition(Struct):
    __slots__ = ("partition_index",)

    def __init__(
        self, *,
        partition_index: int = 0,
    ) -> None:
        self.partition_index = partition_index

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_index=r.int32(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)


class OffsetDeleteRequestTopic(Struct):
    __slots__ = ("name", "partitions")

    def __init__(
        self, *,
        name: str = "",
        partitions: Iterable[OffsetDeleteRequestPartition] = (),
    ) -> None:
        self.name = name
        self.partitions = list(partitions)

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            partitions=r.structs(OffsetDeleteRequestPartition.read, version),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string(),
            partitions=(yield from structs_steps(r, OffsetDeleteRequestPartition.read, version)),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.structs(self.partitions, version)


class OffsetDeleteRequest(Message):
    __slots__ = ("group_id", "topics")
    API_KEY = 47
    VERSIONS = range(1)

    def __init__(
        self, *,
        group_id: str = "",
        topics: Iterable[OffsetDeleteRequestTopic] = (),
    ) -> None:
        self.group_id = group_id
        self.topics = list(topics)

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group_id=r.string(),
            topics=r.structs(OffsetDeleteRequestTopic.read, version),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            group_id=r.string(),
            topics=(yield from nested_steps(r, OffsetDeleteRequestTopic.read_steps, version)),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.group_id)
        w.structs(self.topics, version)
