"""ShareGroupStatePartitionMetadataValue, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/ShareGroupStatePartitionMetadataValue.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nested_steps, structs_steps


class TopicPartitionsInfo(Struct):
    __slots__ = ("topic_id", "topic_name", "partitions", "unknown_tags")

    def __init__(
        self, *,
        topic_id: UUID = ZERO_UUID,
        topic_name: str = "",
        partitions: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic_id=r.uuid(),
            topic_name=r.string(),
            partitions=r.array(r.int32),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topic_id=r.uuid(),
            topic_name=r.string(),
            partitions=(yield from array_steps(r, r.int32)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.uuid(self.topic_id)
        w.string(self.topic_name)
        w.array(w.int32, self.partitions)
        w.tags(self.unknown_tags)


class TopicInfo(Struct):
    __slots__ = ("topic_id", "topic_name", "unknown_tags")

    def __init__(
        self, *,
        topic_id: UUID = ZERO_UUID,
        topic_name: str = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic_id=r.uuid(),
            topic_name=r.string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.uuid(self.topic_id)
        w.string(self.topic_name)
        w.tags(self.unknown_tags)


class ShareGroupStatePartitionMetadataValue(Message):
    __slots__ = ("initializing_topics", "initialized_topics", "deleting_topics", "unknown_tags")
    API_KEY = 15
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        initializing_topics: Iterable[TopicPartitionsInfo] = (),
        initialized_topics: Iterable[TopicPartitionsInfo] = (),
        deleting_topics: Iterable[TopicInfo] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.initializing_topics = list(initializing_topics)
        self.initialized_topics = list(initialized_topics)
        self.deleting_topics = list(deleting_topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            initializing_topics=r.structs(TopicPartitionsInfo.read, version),
            initialized_topics=r.structs(TopicPartitionsInfo.read, version),
            deleting_topics=r.structs(TopicInfo.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            initializing_topics=(yield from nested_steps(r, TopicPartitionsInfo.read_steps, version)),
            initialized_topics=(yield from nested_steps(r, TopicPartitionsInfo.read_steps, version)),
            deleting_topics=(yield from structs_steps(r, TopicInfo.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.structs(self.initializing_topics, version)
        w.structs(self.initialized_topics, version)
        w.structs(self.deleting_topics, version)
        w.tags(self.unknown_tags)
