"""ListPartitionReassignmentsResponse, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/ListPartitionReassignmentsResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nested_steps


class OngoingPartitionReassignment(Struct):
    __slots__ = ("partition_index", "replicas", "adding_replicas", "removing_replicas", "unknown_tags")

    def __init__(
        self, *,
        partition_index: int = 0,
        replicas: Iterable[int] = (),
        adding_replicas: Iterable[int] = (),
        removing_replicas: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_index = partition_index
        self.replicas = list(replicas)
        self.adding_replicas = list(adding_replicas)
        self.removing_replicas = list(removing_replicas)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_index=r.int32(),
            replicas=r.array(r.int32),
            adding_replicas=r.array(r.int32),
            removing_replicas=r.array(r.int32),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            partition_index=r.int32(),
            replicas=(yield from array_steps(r, r.int32)),
            adding_replicas=(yield from array_steps(r, r.int32)),
            removing_replicas=(yield from array_steps(r, r.int32)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
        w.array(w.int32, self.replicas)
        w.array(w.int32, self.adding_replicas)
        w.array(w.int32, self.removing_replicas)
        w.tags(self.unknown_tags)


class OngoingTopicReassignment(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        partitions: Iterable[OngoingPartitionReassignment] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            partitions=r.structs(OngoingPartitionReassignment.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string(),
            partitions=(yield from nested_steps(r, OngoingPartitionReassignment.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.structs(self.partitions, version)
        w.tags(self.unknown_tags)


class ListPartitionReassignmentsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "topics", "unknown_tags")
    API_KEY = 46
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        topics: Iterable[OngoingTopicReassignment] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.topics = list(topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16(),
            error_message=r.nullable_string(),
            topics=r.structs(OngoingTopicReassignment.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16(),
            error_message=r.nullable_string(),
            topics=(yield from nested_steps(r, OngoingTopicReassignment.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        w.int16(self.error_code)
        w.nullable_string(self.error_message)
        w.structs(self.topics, version)
        w.tags(self.unknown_tags)
