"""BeginQuorumEpochRequest, versions 0 to 1, flexible from 1.

Made by tools/protocol.py from schemas/messages/BeginQuorumEpochRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class PartitionData(Struct):
    __slots__ = ("partition_index", "voter_directory_id", "leader_id", "leader_epoch", "unknown_tags")

    def __init__(
        self, *,
        partition_index: int = 0,
        voter_directory_id: UUID = ZERO_UUID,
        leader_id: int = 0,
        leader_epoch: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_index = partition_index
        self.voter_directory_id = voter_directory_id
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_index=r.int32(),
            voter_directory_id=r.uuid() if version >= 1 else ZERO_UUID,
            leader_id=r.int32(),
            leader_epoch=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
        if version >= 1:
            w.uuid(self.voter_directory_id)
        w.int32(self.leader_id)
        w.int32(self.leader_epoch)
        w.tags(self.unknown_tags)


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
            partitions=(yield from structs_steps(r, PartitionData.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.topic_name)
        w.structs(self.partitions, version)
        w.tags(self.unknown_tags)


class LeaderEndpoint(Struct):
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


class BeginQuorumEpochRequest(Message):
    __slots__ = ("cluster_id", "voter_id", "topics", "leader_endpoints", "unknown_tags")
    API_KEY = 53
    VERSIONS = range(2)
    FLEXIBLE_FROM = 1

    def __init__(
        self, *,
        cluster_id: str | None = None,
        voter_id: int = -1,
        topics: Iterable[TopicData] = (),
        leader_endpoints: Iterable[LeaderEndpoint] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.topics = list(topics)
        self.leader_endpoints = list(leader_endpoints)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            cluster_id=r.nullable_string(),
            voter_id=r.int32() if version >= 1 else -1,
            topics=r.structs(TopicData.read, version),
            leader_endpoints=r.structs(LeaderEndpoint.read, version) if version >= 1 else [],
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            cluster_id=r.nullable_string(),
            voter_id=r.int32() if version >= 1 else -1,
            topics=(yield from nested_steps(r, TopicData.read_steps, version)),
            leader_endpoints=(yield from structs_steps(r, LeaderEndpoint.read, version)) if version >= 1 else [],
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.nullable_string(self.cluster_id)
        if version >= 1:
            w.int32(self.voter_id)
        w.structs(self.topics, version)
        if version >= 1:
            w.structs(self.leader_endpoints, version)
        w.tags(self.unknown_tags)
