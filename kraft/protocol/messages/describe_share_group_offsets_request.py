"""DescribeShareGroupOffsetsRequest, versions 0 to 1, flexible from 0.

Made by tools/protocol.py from schemas/messages/DescribeShareGroupOffsetsRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nested_steps, nullable_nested_steps


class DescribeShareGroupOffsetsRequestTopic(Struct):
    __slots__ = ("topic_name", "partitions", "unknown_tags")

    def __init__(
        self, *,
        topic_name: str = "",
        partitions: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topic_name = topic_name
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic_name=r.string(),
            partitions=r.array(r.int32),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topic_name=r.string(),
            partitions=(yield from array_steps(r, r.int32)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.topic_name)
        w.array(w.int32, self.partitions)
        w.tags(self.unknown_tags)


class DescribeShareGroupOffsetsRequestGroup(Struct):
    __slots__ = ("group_id", "topics", "unknown_tags")

    def __init__(
        self, *,
        group_id: str = "",
        topics: Iterable[DescribeShareGroupOffsetsRequestTopic] | None = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.group_id = group_id
        self.topics = None if topics is None else list(topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group_id=r.string(),
            topics=r.nullable_structs(DescribeShareGroupOffsetsRequestTopic.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            group_id=r.string(),
            topics=(yield from nullable_nested_steps(r, DescribeShareGroupOffsetsRequestTopic.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.group_id)
        w.nullable_structs(self.topics, version)
        w.tags(self.unknown_tags)


class DescribeShareGroupOffsetsRequest(Message):
    __slots__ = ("groups", "unknown_tags")
    API_KEY = 90
    VERSIONS = range(2)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        groups: Iterable[DescribeShareGroupOffsetsRequestGroup] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.groups = list(groups)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            groups=r.structs(DescribeShareGroupOffsetsRequestGroup.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            groups=(yield from nested_steps(r, DescribeShareGroupOffsetsRequestGroup.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.structs(self.groups, version)
        w.tags(self.unknown_tags)
