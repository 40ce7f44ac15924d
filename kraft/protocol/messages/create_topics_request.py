"""CreateTopicsRequest, versions 2 to 7, flexible from 5.

Made by tools/protocol.py from schemas/messages/CreateTopicsRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nested_steps, structs_steps


class CreatableReplicaAssignment(Struct):
    __slots__ = ("partition_index", "broker_ids", "unknown_tags")

    def __init__(
        self, *,
        partition_index: int = 0,
        broker_ids: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_index = partition_index
        self.broker_ids = list(broker_ids)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_index=r.int32(),
            broker_ids=r.array(r.int32),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            partition_index=r.int32(),
            broker_ids=(yield from array_steps(r, r.int32)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
        w.array(w.int32, self.broker_ids)
        w.tags(self.unknown_tags)


class CreatableTopicConfig(Struct):
    __slots__ = ("name", "value", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        value: str | None = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.value = value
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            value=r.nullable_string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.nullable_string(self.value)
        w.tags(self.unknown_tags)


class CreatableTopic(Struct):
    __slots__ = ("name", "num_partitions", "replication_factor", "assignments", "configs", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        num_partitions: int = 0,
        replication_factor: int = 0,
        assignments: Iterable[CreatableReplicaAssignment] = (),
        configs: Iterable[CreatableTopicConfig] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.assignments = list(assignments)
        self.configs = list(configs)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            num_partitions=r.int32(),
            replication_factor=r.int16(),
            assignments=r.structs(CreatableReplicaAssignment.read, version),
            configs=r.structs(CreatableTopicConfig.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string(),
            num_partitions=r.int32(),
            replication_factor=r.int16(),
            assignments=(yield from nested_steps(r, CreatableReplicaAssignment.read_steps, version)),
            configs=(yield from structs_steps(r, CreatableTopicConfig.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.int32(self.num_partitions)
        w.int16(self.replication_factor)
        w.structs(self.assignments, version)
        w.structs(self.configs, version)
        w.tags(self.unknown_tags)


class CreateTopicsRequest(Message):
    __slots__ = ("topics", "timeout_ms", "validate_only", "unknown_tags")
    API_KEY = 19
    VERSIONS = range(2, 8)
    FLEXIBLE_FROM = 5

    def __init__(
        self, *,
        topics: Iterable[CreatableTopic] = (),
        timeout_ms: int = 60000,
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
            topics=r.structs(CreatableTopic.read, version),
            timeout_ms=r.int32(),
            validate_only=r.boolean(),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topics=(yield from nested_steps(r, CreatableTopic.read_steps, version)),
            timeout_ms=r.int32(),
            validate_only=r.boolean(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.structs(self.topics, version)
        w.int32(self.timeout_ms)
        w.boolean(self.validate_only)
        w.tags(self.unknown_tags)
