"""CreatePartitionsRequest, versions 0 to 3, flexible from 2.

Made by tools/protocol.py from schemas/messages/CreatePartitionsRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nested_steps, nullable_nested_steps


class CreatePartitionsAssignment(Struct):
    __slots__ = ("broker_ids", "unknown_tags")

    def __init__(
        self, *,
        broker_ids: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.broker_ids = list(broker_ids)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            broker_ids=r.array(r.int32),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            broker_ids=(yield from array_steps(r, r.int32)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.array(w.int32, self.broker_ids)
        w.tags(self.unknown_tags)


class CreatePartitionsTopic(Struct):
    __slots__ = ("name", "count", "assignments", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        count: int = 0,
        assignments: Iterable[CreatePartitionsAssignment] | None = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.count = count
        self.assignments = None if assignments is None else list(assignments)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            count=r.int32(),
            assignments=r.nullable_structs(CreatePartitionsAssignment.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string(),
            count=r.int32(),
            assignments=(yield from nullable_nested_steps(r, CreatePartitionsAssignment.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.int32(self.count)
        w.nullable_structs(self.assignments, version)
        w.tags(self.unknown_tags)


class CreatePartitionsRequest(Message):
    __slots__ = ("topics", "timeout_ms", "validate_only", "unknown_tags")
    API_KEY = 37
    VERSIONS = range(4)
    FLEXIBLE_FROM = 2

    def __init__(
        self, *,
        topics: Iterable[CreatePartitionsTopic] = (),
        timeout_ms: int = 0,
        validate_only: bool = False,
        unknown_tags: Tags = (),
    ) -> None:
        self.topics = list(topics)
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topics=r.structs(CreatePartitionsTopic.read, version),
            timeout_ms=r.int32(),
            validate_only=r.boolean(),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topics=(yield from nested_steps(r, CreatePartitionsTopic.read_steps, version)),
            timeout_ms=r.int32(),
            validate_only=r.boolean(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.structs(self.topics, version)
        w.int32(self.timeout_ms)
        w.boolean(self.validate_only)
        w.tags(self.unknown_tags)
