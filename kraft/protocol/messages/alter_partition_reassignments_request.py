"""AlterPartitionReassignmentsRequest, versions 0 to 1, flexible from 0.

Made by tools/protocol.py from schemas/messages/AlterPartitionReassignmentsRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, nullable_array_steps


class ReassignablePartition(Struct):
    __slots__ = ("partition_index", "replicas", "unknown_tags")

    def __init__(
        self, *,
        partition_index: int = 0,
        replicas: Iterable[int] | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_index = partition_index
        self.replicas = None if replicas is None else list(replicas)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_index=r.int32(),
            replicas=r.nullable_array(r.int32),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            partition_index=r.int32(),
            replicas=(yield from nullable_array_steps(r, r.int32)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
        w.nullable_array(w.int32, self.replicas)
        w.tags(self.unknown_tags)


class ReassignableTopic(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        partitions: Iterable[ReassignablePartition] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            partitions=r.structs(ReassignablePartition.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string(),
            partitions=(yield from nested_steps(r, ReassignablePartition.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.structs(self.partitions, version)
        w.tags(self.unknown_tags)


class AlterPartitionReassignmentsRequest(Message):
    __slots__ = ("timeout_ms", "allow_replication_factor_change", "topics", "unknown_tags")
    API_KEY = 45
    VERSIONS = range(2)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        timeout_ms: int = 60000,
        allow_replication_factor_change: bool = True,
        topics: Iterable[ReassignableTopic] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.timeout_ms = timeout_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.topics = list(topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            timeout_ms=r.int32(),
            allow_replication_factor_change=r.boolean() if version >= 1 else True,
            topics=r.structs(ReassignableTopic.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            timeout_ms=r.int32(),
            allow_replication_factor_change=r.boolean() if version >= 1 else True,
            topics=(yield from nested_steps(r, ReassignableTopic.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.timeout_ms)
        if version >= 1:
            w.boolean(self.allow_replication_factor_change)
        elif not self.allow_replication_factor_change:
            raise absent(self, "allow_replication_factor_change", version)
        w.structs(self.topics, version)
        w.tags(self.unknown_tags)
