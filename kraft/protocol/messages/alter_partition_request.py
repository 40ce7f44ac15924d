"""AlterPartitionRequest, versions 2 to 3, flexible from 2.

Made by tools/protocol.py from schemas/messages/AlterPartitionRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nested_steps, structs_steps


class BrokerState(Struct):
    __slots__ = ("broker_id", "broker_epoch", "unknown_tags")

    def __init__(
        self, *,
        broker_id: int = 0,
        broker_epoch: int = -1,
        unknown_tags: Tags = (),
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            broker_id=r.int32(),
            broker_epoch=r.int64(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.broker_id)
        w.int64(self.broker_epoch)
        w.tags(self.unknown_tags)


class PartitionData(Struct):
    __slots__ = (
        "partition_index", "leader_epoch", "new_isr", "new_isr_with_epochs", "leader_recovery_state", "partition_epoch",
        "unknown_tags",
    )

    def __init__(
        self, *,
        partition_index: int = 0,
        leader_epoch: int = 0,
        new_isr: Iterable[int] = (),
        new_isr_with_epochs: Iterable[BrokerState] = (),
        leader_recovery_state: int = 0,
        partition_epoch: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_index = partition_index
        self.leader_epoch = leader_epoch
        self.new_isr = list(new_isr)
        self.new_isr_with_epochs = list(new_isr_with_epochs)
        self.leader_recovery_state = leader_recovery_state
        self.partition_epoch = partition_epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_index=r.int32(),
            leader_epoch=r.int32(),
            new_isr=r.array(r.int32) if version <= 2 else [],
            new_isr_with_epochs=r.structs(BrokerState.read, version) if version >= 3 else [],
            leader_recovery_state=r.int8(),
            partition_epoch=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            partition_index=r.int32(),
            leader_epoch=r.int32(),
            new_isr=(yield from array_steps(r, r.int32)) if version <= 2 else [],
            new_isr_with_epochs=(yield from structs_steps(r, BrokerState.read, version)) if version >= 3 else [],
            leader_recovery_state=r.int8(),
            partition_epoch=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
        w.int32(self.leader_epoch)
        if version <= 2:
            w.array(w.int32, self.new_isr)
        elif self.new_isr != []:
            raise absent(self, "new_isr", version)
        if version >= 3:
            w.structs(self.new_isr_with_epochs, version)
        elif self.new_isr_with_epochs != []:
            raise absent(self, "new_isr_with_epochs", version)
        w.int8(self.leader_recovery_state)
        w.int32(self.partition_epoch)
        w.tags(self.unknown_tags)


class TopicData(Struct):
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


class AlterPartitionRequest(Message):
    __slots__ = ("broker_id", "broker_epoch", "topics", "unknown_tags")
    API_KEY = 56
    VERSIONS = range(2, 4)
    FLEXIBLE_FROM = 2

    def __init__(
        self, *,
        broker_id: int = 0,
        broker_epoch: int = -1,
        topics: Iterable[TopicData] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.topics = list(topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            broker_id=r.int32(),
            broker_epoch=r.int64(),
            topics=r.structs(TopicData.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            broker_id=r.int32(),
            broker_epoch=r.int64(),
            topics=(yield from nested_steps(r, TopicData.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.broker_id)
        w.int64(self.broker_epoch)
        w.structs(self.topics, version)
        w.tags(self.unknown_tags)
