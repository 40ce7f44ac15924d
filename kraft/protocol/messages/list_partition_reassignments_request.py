"""ListPartitionReassignmentsRequest, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/ListPartitionReassignmentsRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nullable_nested_steps


class ListPartitionReassignmentsTopics(Struct):
    __slots__ = ("name", "partition_indexes", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        partition_indexes: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.partition_indexes = list(partition_indexes)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            partition_indexes=r.array(r.int32),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string(),
            partition_indexes=(yield from array_steps(r, r.int32)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.array(w.int32, self.partition_indexes)
        w.tags(self.unknown_tags)


class ListPartitionReassignmentsRequest(Message):
    __slots__ = ("timeout_ms", "topics", "unknown_tags")
    API_KEY = 46
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        timeout_ms: int = 60000,
        topics: Iterable[ListPartitionReassignmentsTopics] | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.timeout_ms = timeout_ms
        self.topics = None if topics is None else list(topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            timeout_ms=r.int32(),
            topics=r.nullable_structs(ListPartitionReassignmentsTopics.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            timeout_ms=r.int32(),
            topics=(yield from nullable_nested_steps(r, ListPartitionReassignmentsTopics.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.timeout_ms)
        w.nullable_structs(self.topics, version)
        w.tags(self.unknown_tags)
