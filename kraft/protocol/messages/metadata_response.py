"""MetadataResponse, versions 0 to 13, flexible from 9.

Made by tools/protocol.py from schemas/messages/MetadataResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nested_steps, structs_steps


class MetadataResponseBroker(Struct):
    __slots__ = ("node_id", "host", "port", "rack", "unknown_tags")

    def __init__(
        self, *,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            node_id=r.int32(),
            host=r.string(),
            port=r.int32(),
            rack=r.nullable_string() if version >= 1 else None,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.node_id)
        w.string(self.host)
        w.int32(self.port)
        if version >= 1:
            w.nullable_string(self.rack)
        w.tags(self.unknown_tags)


class MetadataResponsePartition(Struct):
    __slots__ = (
        "error_code", "partition_index", "leader_id", "leader_epoch", "replica_nodes", "isr_nodes", "offline_replicas",
        "unknown_tags",
    )

    def __init__(
        self, *,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: Iterable[int] = (),
        isr_nodes: Iterable[int] = (),
        offline_replicas: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = list(replica_nodes)
        self.isr_nodes = list(isr_nodes)
        self.offline_replicas = list(offline_replicas)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            error_code=r.int16(),
            partition_index=r.int32(),
            leader_id=r.int32(),
            leader_epoch=r.int32() if version >= 7 else -1,
            replica_nodes=r.array(r.int32),
            isr_nodes=r.array(r.int32),
            offline_replicas=r.array(r.int32) if version >= 5 else [],
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            error_code=r.int16(),
            partition_index=r.int32(),
            leader_id=r.int32(),
            leader_epoch=r.int32() if version >= 7 else -1,
            replica_nodes=(yield from array_steps(r, r.int32)),
            isr_nodes=(yield from array_steps(r, r.int32)),
            offline_replicas=(yield from array_steps(r, r.int32)) if version >= 5 else [],
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.error_code)
        w.int32(self.partition_index)
        w.int32(self.leader_id)
        if version >= 7:
            w.int32(self.leader_epoch)
        w.array(w.int32, self.replica_nodes)
        w.array(w.int32, self.isr_nodes)
        if version >= 5:
            w.array(w.int32, self.offline_replicas)
        w.tags(self.unknown_tags)


class MetadataResponseTopic(Struct):
    __slots__ = (
        "error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations", "unknown_tags",
    )

    def __init__(
        self, *,
        error_code: int = 0,
        name: str | None = "",
        topic_id: UUID = ZERO_UUID,
        is_internal: bool = False,
        partitions: Iterable[MetadataResponsePartition] = (),
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
            name=r.nullable_string() if version >= 12 else r.string(),
            topic_id=r.uuid() if version >= 10 else ZERO_UUID,
            is_internal=r.boolean() if version >= 1 else False,
            partitions=r.structs(MetadataResponsePartition.read, version),
            topic_authorized_operations=r.int32() if version >= 8 else -2147483648,
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            error_code=r.int16(),
            name=r.nullable_string() if version >= 12 else r.string(),
            topic_id=r.uuid() if version >= 10 else ZERO_UUID,
            is_internal=r.boolean() if version >= 1 else False,
            partitions=(yield from nested_steps(r, MetadataResponsePartition.read_steps, version)),
            topic_authorized_operations=r.int32() if version >= 8 else -2147483648,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.error_code)
        if version >= 12:
            w.nullable_string(self.name)
        else:
            w.string(self.name)
        if version >= 10:
            w.uuid(self.topic_id)
        if version >= 1:
            w.boolean(self.is_internal)
        w.structs(self.partitions, version)
        if version >= 8:
            w.int32(self.topic_authorized_operations)
        elif self.topic_authorized_operations != -2147483648:
            raise absent(self, "topic_authorized_operations", version)
        w.tags(self.unknown_tags)


class MetadataResponse(Message):
    __slots__ = (
        "throttle_time_ms", "brokers", "cluster_id", "controller_id", "topics", "cluster_authorized_operations",
        "error_code", "unknown_tags",
    )
    API_KEY = 3
    VERSIONS = range(14)
    FLEXIBLE_FROM = 9

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        brokers: Iterable[MetadataResponseBroker] = (),
        cluster_id: str | None = None,
        controller_id: int = -1,
        topics: Iterable[MetadataResponseTopic] = (),
        cluster_authorized_operations: int = -2147483648,
        error_code: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.brokers = list(brokers)
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.topics = list(topics)
        self.cluster_authorized_operations = cluster_authorized_operations
        self.error_code = error_code
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32() if version >= 3 else 0,
            brokers=r.structs(MetadataResponseBroker.read, version),
            cluster_id=r.nullable_string() if version >= 2 else None,
            controller_id=r.int32() if version >= 1 else -1,
            topics=r.structs(MetadataResponseTopic.read, version),
            cluster_authorized_operations=r.int32() if 8 <= version <= 10 else -2147483648,
            error_code=r.int16() if version >= 13 else 0,
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32() if version >= 3 else 0,
            brokers=(yield from structs_steps(r, MetadataResponseBroker.read, version)),
            cluster_id=r.nullable_string() if version >= 2 else None,
            controller_id=r.int32() if version >= 1 else -1,
            topics=(yield from nested_steps(r, MetadataResponseTopic.read_steps, version)),
            cluster_authorized_operations=r.int32() if 8 <= version <= 10 else -2147483648,
            error_code=r.int16() if version >= 13 else 0,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version >= 3:
            w.int32(self.throttle_time_ms)
        w.structs(self.brokers, version)
        if version >= 2:
            w.nullable_string(self.cluster_id)
        if version >= 1:
            w.int32(self.controller_id)
        w.structs(self.topics, version)
        if 8 <= version <= 10:
            w.int32(self.cluster_authorized_operations)
        elif self.cluster_authorized_operations != -2147483648:
            raise absent(self, "cluster_authorized_operations", version)
        if version >= 13:
            w.int16(self.error_code)
        w.tags(self.unknown_tags)
