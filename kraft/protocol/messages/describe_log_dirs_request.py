"""DescribeLogDirsRequest, versions 1 to 5, flexible from 2.

Made by tools/protocol.py from schemas/messages/DescribeLogDirsRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nullable_nested_steps


class DescribableLogDirTopic(Struct):
    __slots__ = ("topic", "partitions", "unknown_tags")

    def __init__(
        self, *,
        topic: str = "",
        partitions: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topic = topic
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic=r.string(),
            partitions=r.array(r.int32),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topic=r.string(),
            partitions=(yield from array_steps(r, r.int32)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.topic)
        w.array(w.int32, self.partitions)
        w.tags(self.unknown_tags)


class DescribeLogDirsRequest(Message):
    __slots__ = ("topics", "unknown_tags")
    API_KEY = 35
    VERSIONS = range(1, 6)
    FLEXIBLE_FROM = 2

    def __init__(
        self, *,
        topics: Iterable[DescribableLogDirTopic] | None = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topics = None if topics is None else list(topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topics=r.nullable_structs(DescribableLogDirTopic.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topics=(yield from nullable_nested_steps(r, DescribableLogDirTopic.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.nullable_structs(self.topics, version)
        w.tags(self.unknown_tags)
