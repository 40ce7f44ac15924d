"""FetchSnapshotResponse, versions 0 to 1, flexible from 0.

Made by tools/protocol.py from schemas/messages/FetchSnapshotResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class SnapshotId(Struct):
    __slots__ = ("end_offset", "epoch", "unknown_tags")

    def __init__(
        self, *,
        end_offset: int = 0,
        epoch: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.end_offset = end_offset
        self.epoch = epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            end_offset=r.int64(),
            epoch=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int64(self.end_offset)
        w.int32(self.epoch)
        w.tags(self.unknown_tags)


class LeaderIdAndEpoch(Struct):
    __slots__ = ("leader_id", "leader_epoch", "unknown_tags")

    def __init__(
        self, *,
        leader_id: int = 0,
        leader_epoch: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            leader_id=r.int32(),
            leader_epoch=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.leader_id)
        w.int32(self.leader_epoch)
        w.tags(self.unknown_tags)


class PartitionSnapshot(Struct):
    __slots__ = (
        "index", "error_code", "snapshot_id", "current_leader", "size", "position", "unaligned_records", "unknown_tags",
    )

    def __init__(
        self, *,
        index: int = 0,
        error_code: int = 0,
        snapshot_id: SnapshotId | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
        size: int = 0,
        position: int = 0,
        unaligned_records: bytes = b"",
        unknown_tags: Tags = (),
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.snapshot_id = SnapshotId() if snapshot_id is None else snapshot_id
        self.current_leader = LeaderIdAndEpoch() if current_leader is None else current_leader
        self.size = size
        self.position = position
        self.unaligned_records = unaligned_records
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            index=r.int32(),
            error_code=r.int16(),
            snapshot_id=SnapshotId.read(r, version),
            size=r.int64(),
            position=r.int64(),
            unaligned_records=r.blob(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.current_leader = LeaderIdAndEpoch.read(value, version)
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.index)
        w.int16(self.error_code)
        self.snapshot_id.write(w, version)
        w.int64(self.size)
        w.int64(self.position)
        w.blob(self.unaligned_records)
        tags = list(self.unknown_tags)
        if self.current_leader != LeaderIdAndEpoch():
            value = WireWriter(True)
            self.current_leader.write(value, version)
            tags.append((0, value.finish()))
        w.tags(tags)


class TopicSnapshot(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        partitions: Iterable[PartitionSnapshot] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            partitions=r.structs(PartitionSnapshot.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string(),
            partitions=(yield from structs_steps(r, PartitionSnapshot.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.structs(self.partitions, version)
        w.tags(self.unknown_tags)


class NodeEndpoint(Struct):
    __slots__ = ("node_id", "host", "port", "unknown_tags")

    def __init__(
        self, *,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            node_id=r.int32(),
            host=r.string(),
            port=r.uint16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.node_id)
        w.string(self.host)
        w.uint16(self.port)
        w.tags(self.unknown_tags)


class FetchSnapshotResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "topics", "node_endpoints", "unknown_tags")
    API_KEY = 59
    VERSIONS = range(2)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        topics: Iterable[TopicSnapshot] = (),
        node_endpoints: Iterable[NodeEndpoint] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.topics = list(topics)
        self.node_endpoints = list(node_endpoints)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16(),
            topics=r.structs(TopicSnapshot.read, version),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0 and version >= 1:
                struct.node_endpoints = value.structs(NodeEndpoint.read, version)
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        struct = cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16(),
            topics=(yield from nested_steps(r, TopicSnapshot.read_steps, version)),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0 and version >= 1:
                struct.node_endpoints = (yield from structs_steps(value, NodeEndpoint.read, version))
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        w.int16(self.error_code)
        w.structs(self.topics, version)
        tags = list(self.unknown_tags)
        if self.node_endpoints != []:
            if version < 1:
                raise absent(self, "node_endpoints", version)
            value = WireWriter(True)
            value.structs(self.node_endpoints, version)
            tags.append((0, value.finish()))
        w.tags(tags)
