"""OffsetForLeaderEpochRequest, versions 2 to 4, flexible from 4.

Made by tools/protocol.py from schemas/messages/OffsetForLeaderEpochRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class OffsetForLeaderPartition(Struct):
    __slots__ = ("partition", "current_leader_epoch", "leader_epoch", "unknown_tags")

    def __init__(
        self, *,
        partition: int = 0,
        current_leader_epoch: int = -1,
        leader_epoch: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.leader_epoch = leader_epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition=r.int32(),
            current_leader_epoch=r.int32(),
            leader_epoch=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition)
        w.int32(self.current_leader_epoch)
        w.int32(self.leader_epoch)
        w.tags(self.unknown_tags)


class OffsetForLeaderTopic(Struct):
    __slots__ = ("topic", "partitions", "unknown_tags")

    def __init__(
        self, *,
        topic: str = "",
        partitions: Iterable[OffsetForLeaderPartition] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topic = topic
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic=r.string(),
            partitions=r.structs(OffsetForLeaderPartition.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topic=r.string(),
            partitions=(yield from structs_steps(r, OffsetForLeaderPartition.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.topic)
        w.structs(self.partitions, version)
        w.tags(self.unknown_tags)


class OffsetForLeaderEpochRequest(Message):
    __slots__ = ("replica_id", "topics", "unknown_tags")
    API_KEY = 23
    VERSIONS = range(2, 5)
    FLEXIBLE_FROM = 4

    def __init__(
        self, *,
        replica_id: int = -2,
        topics: Iterable[OffsetForLeaderTopic] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.replica_id = replica_id
        self.topics = list(topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            replica_id=r.int32() if version >= 3 else -2,
            topics=r.structs(OffsetForLeaderTopic.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            replica_id=r.int32() if version >= 3 else -2,
            topics=(yield from nested_steps(r, OffsetForLeaderTopic.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version >= 3:
            w.int32(self.replica_id)
        w.structs(self.topics, version)
        w.tags(self.unknown_tags)
