"""FetchSnapshotRequest, versions 0 to 1, flexible from 0.

Made by tools/protocol.py from schemas/messages/FetchSnapshotRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags
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


class PartitionSnapshot(Struct):
    __slots__ = ("partition", "current_leader_epoch", "snapshot_id", "position", "replica_directory_id", "unknown_tags")

    def __init__(
        self, *,
        partition: int = 0,
        current_leader_epoch: int = 0,
        snapshot_id: SnapshotId | None = None,
        position: int = 0,
        replica_directory_id: UUID = ZERO_UUID,
        unknown_tags: Tags = (),
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.snapshot_id = SnapshotId() if snapshot_id is None else snapshot_id
        self.position = position
        self.replica_directory_id = replica_directory_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            partition=r.int32(),
            current_leader_epoch=r.int32(),
            snapshot_id=SnapshotId.read(r, version),
            position=r.int64(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0 and version >= 1:
                struct.replica_directory_id = value.uuid()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition)
        w.int32(self.current_leader_epoch)
        self.snapshot_id.write(w, version)
        w.int64(self.position)
        tags = list(self.unknown_tags)
        if version >= 1 and self.replica_directory_id != ZERO_UUID:
            value = WireWriter(True)
            value.uuid(self.replica_directory_id)
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


class FetchSnapshotRequest(Message):
    __slots__ = ("cluster_id", "replica_id", "max_bytes", "topics", "unknown_tags")
    API_KEY = 59
    VERSIONS = range(2)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        cluster_id: str | None = None,
        replica_id: int = -1,
        max_bytes: int = 2147483647,
        topics: Iterable[TopicSnapshot] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.max_bytes = max_bytes
        self.topics = list(topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            replica_id=r.int32(),
            max_bytes=r.int32(),
            topics=r.structs(TopicSnapshot.read, version),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.cluster_id = value.nullable_string()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        struct = cls(
            replica_id=r.int32(),
            max_bytes=r.int32(),
            topics=(yield from nested_steps(r, TopicSnapshot.read_steps, version)),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.cluster_id = value.nullable_string()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.replica_id)
        w.int32(self.max_bytes)
        w.structs(self.topics, version)
        tags = list(self.unknown_tags)
        if self.cluster_id is not None:
            value = WireWriter(True)
            value.nullable_string(self.cluster_id)
            tags.append((0, value.finish()))
        w.tags(tags)
