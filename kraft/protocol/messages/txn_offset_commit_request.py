"""TxnOffsetCommitRequest, versions 0 to 5, flexible from 3.

Made by tools/protocol.py from schemas/messages/TxnOffsetCommitRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class TxnOffsetCommitRequestPartition(Struct):
    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata", "unknown_tags")

    def __init__(
        self, *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        committed_metadata: str | None = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_index=r.int32(),
            committed_offset=r.int64(),
            committed_leader_epoch=r.int32() if version >= 2 else -1,
            committed_metadata=r.nullable_string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
        w.int64(self.committed_offset)
        if version >= 2:
            w.int32(self.committed_leader_epoch)
        w.nullable_string(self.committed_metadata)
        w.tags(self.unknown_tags)


class TxnOffsetCommitRequestTopic(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        partitions: Iterable[TxnOffsetCommitRequestPartition] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            partitions=r.structs(TxnOffsetCommitRequestPartition.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string(),
            partitions=(yield from structs_steps(r, TxnOffsetCommitRequestPartition.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.structs(self.partitions, version)
        w.tags(self.unknown_tags)


class TxnOffsetCommitRequest(Message):
    __slots__ = (
        "transactional_id", "group_id", "producer_id", "producer_epoch", "generation_id", "member_id",
        "group_instance_id", "topics", "unknown_tags",
    )
    API_KEY = 28
    VERSIONS = range(6)
    FLEXIBLE_FROM = 3

    def __init__(
        self, *,
        transactional_id: str = "",
        group_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        generation_id: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        topics: Iterable[TxnOffsetCommitRequestTopic] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.group_id = group_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.topics = list(topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            transactional_id=r.string(),
            group_id=r.string(),
            producer_id=r.int64(),
            producer_epoch=r.int16(),
            generation_id=r.int32() if version >= 3 else -1,
            member_id=r.string() if version >= 3 else "",
            group_instance_id=r.nullable_string() if version >= 3 else None,
            topics=r.structs(TxnOffsetCommitRequestTopic.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            transactional_id=r.string(),
            group_id=r.string(),
            producer_id=r.int64(),
            producer_epoch=r.int16(),
            generation_id=r.int32() if version >= 3 else -1,
            member_id=r.string() if version >= 3 else "",
            group_instance_id=r.nullable_string() if version >= 3 else None,
            topics=(yield from nested_steps(r, TxnOffsetCommitRequestTopic.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.transactional_id)
        w.string(self.group_id)
        w.int64(self.producer_id)
        w.int16(self.producer_epoch)
        if version >= 3:
            w.int32(self.generation_id)
        elif self.generation_id != -1:
            raise absent(self, "generation_id", version)
        if version >= 3:
            w.string(self.member_id)
        elif self.member_id != "":
            raise absent(self, "member_id", version)
        if version >= 3:
            w.nullable_string(self.group_instance_id)
        elif self.group_instance_id is not None:
            raise absent(self, "group_instance_id", version)
        w.structs(self.topics, version)
        w.tags(self.unknown_tags)
