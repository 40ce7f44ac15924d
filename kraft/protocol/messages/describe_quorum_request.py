"""DescribeQuorumRequest, versions 0 to 2, flexible from 0.

Made by tools/protocol.py from schemas/messages/DescribeQuorumRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class PartitionData(Struct):
    __slots__ = ("partition_index", "unknown_tags")

    def __init__(
        self, *,
        partition_index: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_index = partition_index
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_index=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
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


class DescribeQuorumRequest(Message):
    __slots__ = ("topics", "unknown_tags")
    API_KEY = 55
    VERSIONS = range(3)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        topics: Iterable[TopicData] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topics = list(topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topics=r.structs(TopicData.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topics=(yield from nested_steps(r, TopicData.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.structs(self.topics, version)
        w.tags(self.unknown_tags)
