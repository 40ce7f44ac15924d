"""ConsumerGroupPartitionMetadataValue, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/ConsumerGroupPartitionMetadataValue.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nested_steps


class PartitionMetadata(Struct):
    __slots__ = ("partition", "racks", "unknown_tags")

    def __init__(
        self, *,
        partition: int = 0,
        racks: Iterable[str] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.partition = partition
        self.racks = list(racks)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition=r.int32(),
            racks=r.array(r.string),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            partition=r.int32(),
            racks=(yield from array_steps(r, r.string)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition)
        w.array(w.string, self.racks)
        w.tags(self.unknown_tags)


class TopicMetadata(Struct):
    __slots__ = ("topic_id", "topic_name", "num_partitions", "partition_metadata", "unknown_tags")

    def __init__(
        self, *,
        topic_id: UUID = ZERO_UUID,
        topic_name: str = "",
        num_partitions: int = 0,
        partition_metadata: Iterable[PartitionMetadata] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.num_partitions = num_partitions
        self.partition_metadata = list(partition_metadata)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic_id=r.uuid(),
            topic_name=r.string(),
            num_partitions=r.int32(),
            partition_metadata=r.structs(PartitionMetadata.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topic_id=r.uuid(),
            topic_name=r.string(),
            num_partitions=r.int32(),
            partition_metadata=(yield from nested_steps(r, PartitionMetadata.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.uuid(self.topic_id)
        w.string(self.topic_name)
        w.int32(self.num_partitions)
        w.structs(self.partition_metadata, version)
        w.tags(self.unknown_tags)


class ConsumerGroupPartitionMetadataValue(Message):
    __slots__ = ("topics", "unknown_tags")
    API_KEY = 4
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        topics: Iterable[TopicMetadata] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topics = list(topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topics=r.structs(TopicMetadata.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topics=(yield from nested_steps(r, TopicMetadata.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.structs(self.topics, version)
        w.tags(self.unknown_tags)
