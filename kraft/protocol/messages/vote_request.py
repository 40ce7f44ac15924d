"""VoteRequest, versions 0 to 2, flexible from 0.

Made by tools/protocol.py from schemas/messages/VoteRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class PartitionData(Struct):
    __slots__ = (
        "partition_index", "replica_epoch", "replica_id", "replica_directory_id", "voter_directory_id",
        "last_offset_epoch", "last_offset", "pre_vote", "unknown_tags",
    )

    def __init__(
        self, *,
        partition_index: int = 0,
        replica_epoch: int = 0,
        replica_id: int = 0,
        replica_directory_id: UUID = ZERO_UUID,
        voter_directory_id: UUID = ZERO_UUID,
        last_offset_epoch: int = 0,
        last_offset: int = 0,
        pre_vote: bool = False,
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_index = partition_index
        self.replica_epoch = replica_epoch
        self.replica_id = replica_id
        self.replica_directory_id = replica_directory_id
        self.voter_directory_id = voter_directory_id
        self.last_offset_epoch = last_offset_epoch
        self.last_offset = last_offset
        self.pre_vote = pre_vote
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_index=r.int32(),
            replica_epoch=r.int32(),
            replica_id=r.int32(),
            replica_directory_id=r.uuid() if version >= 1 else ZERO_UUID,
            voter_directory_id=r.uuid() if version >= 1 else ZERO_UUID,
            last_offset_epoch=r.int32(),
            last_offset=r.int64(),
            pre_vote=r.boolean() if version >= 2 else False,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
        w.int32(self.replica_epoch)
        w.int32(self.replica_id)
        if version >= 1:
            w.uuid(self.replica_directory_id)
        if version >= 1:
            w.uuid(self.voter_directory_id)
        w.int32(self.last_offset_epoch)
        w.int64(self.last_offset)
        if version >= 2:
            w.boolean(self.pre_vote)
        elif self.pre_vote:
            raise absent(self, "pre_vote", version)
        w.tags(self.unknown_tags)


class TopicData(Struct):
    __slots__ = ("topic_name", "partitions", "unknown_tags")

    def __init__(
        self, *,
        topic_name: str = "",
        partitions: Iterable[PartitionData] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topic_name = topic_name
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic_name=r.string(),
            partitions=r.structs(PartitionData.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topic_name=r.string(),
            partitions=(yield from structs_steps(r, PartitionData.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.topic_name)
        w.structs(self.partitions, version)
        w.tags(self.unknown_tags)


class VoteRequest(Message):
    __slots__ = ("cluster_id", "voter_id", "topics", "unknown_tags")
    API_KEY = 52
    VERSIONS = range(3)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        cluster_id: str | None = None,
        voter_id: int = -1,
        topics: Iterable[TopicData] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.topics = list(topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            cluster_id=r.nullable_string(),
            voter_id=r.int32() if version >= 1 else -1,
            topics=r.structs(TopicData.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            cluster_id=r.nullable_string(),
            voter_id=r.int32() if version >= 1 else -1,
            topics=(yield from nested_steps(r, TopicData.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.nullable_string(self.cluster_id)
        if version >= 1:
            w.int32(self.voter_id)
        w.structs(self.topics, version)
        w.tags(self.unknown_tags)
