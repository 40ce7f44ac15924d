"""DescribeTopicPartitionsRequest, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/DescribeTopicPartitionsRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class TopicRequest(Struct):
    __slots__ = ("name", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.tags(self.unknown_tags)


class Cursor(Struct):
    __slots__ = ("topic_name", "partition_index", "unknown_tags")

    def __init__(
        self, *,
        topic_name: str = "",
        partition_index: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic_name=r.string(),
            partition_index=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.topic_name)
        w.int32(self.partition_index)
        w.tags(self.unknown_tags)


class DescribeTopicPartitionsRequest(Message):
    __slots__ = ("topics", "response_partition_limit", "cursor", "unknown_tags")
    API_KEY = 75
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        topics: Iterable[TopicRequest] = (),
        response_partition_limit: int = 2000,
        cursor: Cursor | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.topics = list(topics)
        self.response_partition_limit = response_partition_limit
        self.cursor = cursor
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topics=r.structs(TopicRequest.read, version),
            response_partition_limit=r.int32(),
            cursor=r.nullable_struct(Cursor.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topics=(yield from structs_steps(r, TopicRequest.read, version)),
            response_partition_limit=r.int32(),
            cursor=r.nullable_struct(Cursor.read, version),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.structs(self.topics, version)
        w.int32(self.response_partition_limit)
        w.nullable_struct(self.cursor, version)
        w.tags(self.unknown_tags)
