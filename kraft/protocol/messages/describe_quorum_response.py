"""DescribeQuorumResponse, versions 0 to 2, flexible from 0.

Made by tools/protocol.py from schemas/messages/DescribeQuorumResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, nullable_structs_steps, structs_steps


class ReplicaState(Struct):
    __slots__ = (
        "replica_id", "replica_directory_id", "log_end_offset", "last_fetch_timestamp", "last_caught_up_timestamp",
        "unknown_tags",
    )

    def __init__(
        self, *,
        replica_id: int = 0,
        replica_directory_id: UUID = ZERO_UUID,
        log_end_offset: int = 0,
        last_fetch_timestamp: int = -1,
        last_caught_up_timestamp: int = -1,
        unknown_tags: Tags = (),
    ) -> None:
        self.replica_id = replica_id
        self.replica_directory_id = replica_directory_id
        self.log_end_offset = log_end_offset
        self.last_fetch_timestamp = last_fetch_timestamp
        self.last_caught_up_timestamp = last_caught_up_timestamp
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            replica_id=r.int32(),
            replica_directory_id=r.uuid() if version >= 2 else ZERO_UUID,
            log_end_offset=r.int64(),
            last_fetch_timestamp=r.int64() if version >= 1 else -1,
            last_caught_up_timestamp=r.int64() if version >= 1 else -1,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.replica_id)
        if version >= 2:
            w.uuid(self.replica_directory_id)
        elif self.replica_directory_id != ZERO_UUID:
            raise absent(self, "replica_directory_id", version)
        w.int64(self.log_end_offset)
        if version >= 1:
            w.int64(self.last_fetch_timestamp)
        if version >= 1:
            w.int64(self.last_caught_up_timestamp)
        w.tags(self.unknown_tags)


class PartitionData(Struct):
    __slots__ = (
        "partition_index", "error_code", "error_message", "leader_id", "leader_epoch", "high_watermark",
        "current_voters", "observers", "target_voters", "unknown_tags",
    )

    def __init__(
        self, *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        leader_id: int = 0,
        leader_epoch: int = 0,
        high_watermark: int = 0,
        current_voters: Iterable[ReplicaState] = (),
        observers: Iterable[ReplicaState] = (),
        target_voters: Iterable[ReplicaState] | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.high_watermark = high_watermark
        self.current_voters = list(current_voters)
        self.observers = list(observers)
        self.target_voters = None if target_voters is None else list(target_voters)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            partition_index=r.int32(),
            error_code=r.int16(),
            error_message=r.nullable_string() if version >= 2 else "",
            leader_id=r.int32(),
            leader_epoch=r.int32(),
            high_watermark=r.int64(),
            current_voters=r.structs(ReplicaState.read, version),
            observers=r.structs(ReplicaState.read, version),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 100:
                struct.target_voters = value.nullable_structs(ReplicaState.read, version)
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        struct = cls(
            partition_index=r.int32(),
            error_code=r.int16(),
            error_message=r.nullable_string() if version >= 2 else "",
            leader_id=r.int32(),
            leader_epoch=r.int32(),
            high_watermark=r.int64(),
            current_voters=(yield from structs_steps(r, ReplicaState.read, version)),
            observers=(yield from structs_steps(r, ReplicaState.read, version)),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 100:
                struct.target_voters = (yield from nullable_structs_steps(value, ReplicaState.read, version))
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
        w.int16(self.error_code)
        if version >= 2:
            w.nullable_string(self.error_message)
        w.int32(self.leader_id)
        w.int32(self.leader_epoch)
        w.int64(self.high_watermark)
        w.structs(self.current_voters, version)
        w.structs(self.observers, version)
        tags = list(self.unknown_tags)
        if self.target_voters is not None:
            value = WireWriter(True)
            value.nullable_structs(self.target_voters, version)
            tags.append((100, value.finish()))
        w.tags(tags)


class TopicData(Struct):
    __slots__ = ("topic_name", "partitions", "unknown_tags")

    def __init__(
        self, *,
        topic_name: str = "",
        partitions: Iterable[PartitionData] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topic_name = topic_name
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic_name=r.string(),
            partitions=r.structs(PartitionData.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topic_name=r.string(),
            partitions=(yield from nested_steps(r, PartitionData.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.topic_name)
        w.structs(self.partitions, version)
        w.tags(self.unknown_tags)


class Listener(Struct):
    __slots__ = ("name", "host", "port", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        host: str = "",
        port: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            host=r.string(),
            port=r.uint16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.string(self.host)
        w.uint16(self.port)
        w.tags(self.unknown_tags)


class Node(Struct):
    __slots__ = ("node_id", "listeners", "unknown_tags")

    def __init__(
        self, *,
        node_id: int = 0,
        listeners: Iterable[Listener] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.node_id = node_id
        self.listeners = list(listeners)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            node_id=r.int32(),
            listeners=r.structs(Listener.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            node_id=r.int32(),
            listeners=(yield from structs_steps(r, Listener.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.node_id)
        w.structs(self.listeners, version)
        w.tags(self.unknown_tags)


class DescribeQuorumResponse(Message):
    __slots__ = ("error_code", "error_message", "topics", "nodes", "unknown_tags")
    API_KEY = 55
    VERSIONS = range(3)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        error_code: int = 0,
        error_message: str | None = "",
        topics: Iterable[TopicData] = (),
        nodes: Iterable[Node] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.topics = list(topics)
        self.nodes = list(nodes)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            error_code=r.int16(),
            error_message=r.nullable_string() if version >= 2 else "",
            topics=r.structs(TopicData.read, version),
            nodes=r.structs(Node.read, version) if version >= 2 else [],
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            error_code=r.int16(),
            error_message=r.nullable_string() if version >= 2 else "",
            topics=(yield from nested_steps(r, TopicData.read_steps, version)),
            nodes=(yield from nested_steps(r, Node.read_steps, version)) if version >= 2 else [],
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.error_code)
        if version >= 2:
            w.nullable_string(self.error_message)
        w.structs(self.topics, version)
        if version >= 2:
            w.structs(self.nodes, version)
        elif self.nodes != []:
            raise absent(self, "nodes", version)
        w.tags(self.unknown_tags)
