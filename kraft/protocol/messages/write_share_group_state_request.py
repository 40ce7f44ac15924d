"""WriteShareGroupStateRequest, versions 0 to 1, flexible from 0.

Made by tools/protocol.py from schemas/messages/WriteShareGroupStateRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class StateBatch(Struct):
    __slots__ = ("first_offset", "last_offset", "delivery_state", "delivery_count", "unknown_tags")

    def __init__(
        self, *,
        first_offset: int = 0,
        last_offset: int = 0,
        delivery_state: int = 0,
        delivery_count: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_state = delivery_state
        self.delivery_count = delivery_count
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            first_offset=r.int64(),
            last_offset=r.int64(),
            delivery_state=r.int8(),
            delivery_count=r.int16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int64(self.first_offset)
        w.int64(self.last_offset)
        w.int8(self.delivery_state)
        w.int16(self.delivery_count)
        w.tags(self.unknown_tags)


class PartitionData(Struct):
    __slots__ = (
        "partition", "state_epoch", "leader_epoch", "start_offset", "delivery_complete_count", "state_batches",
        "unknown_tags",
    )

    def __init__(
        self, *,
        partition: int = 0,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        delivery_complete_count: int = -1,
        state_batches: Iterable[StateBatch] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.partition = partition
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count
        self.state_batches = list(state_batches)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition=r.int32(),
            state_epoch=r.int32(),
            leader_epoch=r.int32(),
            start_offset=r.int64(),
            delivery_complete_count=r.int32() if version >= 1 else -1,
            state_batches=r.structs(StateBatch.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            partition=r.int32(),
            state_epoch=r.int32(),
            leader_epoch=r.int32(),
            start_offset=r.int64(),
            delivery_complete_count=r.int32() if version >= 1 else -1,
            state_batches=(yield from structs_steps(r, StateBatch.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition)
        w.int32(self.state_epoch)
        w.int32(self.leader_epoch)
        w.int64(self.start_offset)
        if version >= 1:
            w.int32(self.delivery_complete_count)
        w.structs(self.state_batches, version)
        w.tags(self.unknown_tags)


class WriteStateData(Struct):
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
            partitions=(yield from nested_steps(r, PartitionData.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.uuid(self.topic_id)
        w.structs(self.partitions, version)
        w.tags(self.unknown_tags)


class WriteShareGroupStateRequest(Message):
    __slots__ = ("group_id", "topics", "unknown_tags")
    API_KEY = 85
    VERSIONS = range(2)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        group_id: str = "",
        topics: Iterable[WriteStateData] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.group_id = group_id
        self.topics = list(topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group_id=r.string(),
            topics=r.structs(WriteStateData.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            group_id=r.string(),
            topics=(yield from nested_steps(r, WriteStateData.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.group_id)
        w.structs(self.topics, version)
        w.tags(self.unknown_tags)
