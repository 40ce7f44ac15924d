"""ReadShareGroupStateRequest, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/ReadShareGroupStateRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class PartitionData(Struct):
    __slots__ = ("partition", "leader_epoch", "unknown_tags")

    def __init__(
        self, *,
        partition: int = 0,
        leader_epoch: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition=r.int32(),
            leader_epoch=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition)
        w.int32(self.leader_epoch)
        w.tags(self.unknown_tags)


class ReadStateData(Struct):
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


class ReadShareGroupStateRequest(Message):
    __slots__ = ("group_id", "topics", "unknown_tags")
    API_KEY = 84
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        group_id: str = "",
        topics: Iterable[ReadStateData] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.group_id = group_id
        self.topics = list(topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group_id=r.string(),
            topics=r.structs(ReadStateData.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            group_id=r.string(),
            topics=(yield from nested_steps(r, ReadStateData.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.group_id)
        w.structs(self.topics, version)
        w.tags(self.unknown_tags)
