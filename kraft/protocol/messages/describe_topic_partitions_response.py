"""DescribeTopicPartitionsResponse, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/DescribeTopicPartitionsResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nested_steps, nullable_array_steps


class DescribeTopicPartitionsResponsePartition(Struct):
    __slots__ = (
        "error_code", "partition_index", "leader_id", "leader_epoch", "replica_nodes", "isr_nodes",
        "eligible_leader_replicas", "last_known_elr", "offline_replicas", "unknown_tags",
    )

    def __init__(
        self, *,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: Iterable[int] = (),
        isr_nodes: Iterable[int] = (),
        eligible_leader_replicas: Iterable[int] | None = None,
        last_known_elr: Iterable[int] | None = None,
        offline_replicas: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = list(replica_nodes)
        self.isr_nodes = list(isr_nodes)
        self.eligible_leader_replicas = None if eligible_leader_replicas is None else list(eligible_leader_replicas)
        self.last_known_elr = None if last_known_elr is None else list(last_known_elr)
        self.offline_replicas = list(offline_replicas)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            error_code=r.int16(),
            partition_index=r.int32(),
            leader_id=r.int32(),
            leader_epoch=r.int32(),
            replica_nodes=r.array(r.int32),
            isr_nodes=r.array(r.int32),
            eligible_leader_replicas=r.nullable_array(r.int32),
            last_known_elr=r.nullable_array(r.int32),
            offline_replicas=r.array(r.int32),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            error_code=r.int16(),
            partition_index=r.int32(),
            leader_id=r.int32(),
            leader_epoch=r.int32(),
            replica_nodes=(yield from array_steps(r, r.int32)),
            isr_nodes=(yield from array_steps(r, r.int32)),
            eligible_leader_replicas=(yield from nullable_array_steps(r, r.int32)),
            last_known_elr=(yield from nullable_array_steps(r, r.int32)),
            offline_replicas=(yield from array_steps(r, r.int32)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.error_code)
        w.int32(self.partition_index)
        w.int32(self.leader_id)
        w.int32(self.leader_epoch)
        w.array(w.int32, self.replica_nodes)
        w.array(w.int32, self.isr_nodes)
        w.nullable_array(w.int32, self.eligible_leader_replicas)
        w.nullable_array(w.int32, self.last_known_elr)
        w.array(w.int32, self.offline_replicas)
        w.tags(self.unknown_tags)


class DescribeTopicPartitionsResponseTopic(Struct):
    __slots__ = (
        "error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations", "unknown_tags",
    )

    def __init__(
        self, *,
        error_code: int = 0,
        name: str | None = "",
        topic_id: UUID = ZERO_UUID,
        is_internal: bool = False,
        partitions: Iterable[DescribeTopicPartitionsResponsePartition] = (),
        topic_authorized_operations: int = -2147483648,
        unknown_tags: Tags = (),
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = list(partitions)
        self.topic_authorized_operations = topic_authorized_operations
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            error_code=r.int16(),
            name=r.nullable_string(),
            topic_id=r.uuid(),
            is_internal=r.boolean(),
            partitions=r.structs(DescribeTopicPartitionsResponsePartition.read, version),
            topic_authorized_operations=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            error_code=r.int16(),
            name=r.nullable_string(),
            topic_id=r.uuid(),
            is_internal=r.boolean(),
            partitions=(yield from nested_steps(r, DescribeTopicPartitionsResponsePartition.read_steps, version)),
            topic_authorized_operations=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.error_code)
        w.nullable_string(self.name)
        w.uuid(self.topic_id)
        w.boolean(self.is_internal)
        w.structs(self.partitions, version)
        w.int32(self.topic_authorized_operations)
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


class DescribeTopicPartitionsResponse(Message):
    __slots__ = ("throttle_time_ms", "topics", "next_cursor", "unknown_tags")
    API_KEY = 75
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        topics: Iterable[DescribeTopicPartitionsResponseTopic] = (),
        next_cursor: Cursor | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = list(topics)
        self.next_cursor = next_cursor
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32(),
            topics=r.structs(DescribeTopicPartitionsResponseTopic.read, version),
            next_cursor=r.nullable_struct(Cursor.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32(),
            topics=(yield from nested_steps(r, DescribeTopicPartitionsResponseTopic.read_steps, version)),
            next_cursor=r.nullable_struct(Cursor.read, version),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        w.structs(self.topics, version)
        w.nullable_struct(self.next_cursor, version)
        w.tags(self.unknown_tags)
