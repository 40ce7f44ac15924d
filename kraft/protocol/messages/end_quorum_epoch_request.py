"""EndQuorumEpochRequest, versions 0 to 1, flexible from 1.

Made by tools/protocol.py from schemas/messages/EndQuorumEpochRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nested_steps, structs_steps


class ReplicaInfo(Struct):
    __slots__ = ("candidate_id", "candidate_directory_id", "unknown_tags")

    def __init__(
        self, *,
        candidate_id: int = 0,
        candidate_directory_id: UUID = ZERO_UUID,
        unknown_tags: Tags = (),
    ) -> None:
        self.candidate_id = candidate_id
        self.candidate_directory_id = candidate_directory_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            candidate_id=r.int32(),
            candidate_directory_id=r.uuid(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.candidate_id)
        w.uuid(self.candidate_directory_id)
        w.tags(self.unknown_tags)


class PartitionData(Struct):
    __slots__ = (
        "partition_index", "leader_id", "leader_epoch", "preferred_successors", "preferred_candidates", "unknown_tags",
    )

    def __init__(
        self, *,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
        preferred_successors: Iterable[int] = (),
        preferred_candidates: Iterable[ReplicaInfo] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.preferred_successors = list(preferred_successors)
        self.preferred_candidates = list(preferred_candidates)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_index=r.int32(),
            leader_id=r.int32(),
            leader_epoch=r.int32(),
            preferred_successors=r.array(r.int32) if version <= 0 else [],
            preferred_candidates=r.structs(ReplicaInfo.read, version) if version >= 1 else [],
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            partition_index=r.int32(),
            leader_id=r.int32(),
            leader_epoch=r.int32(),
            preferred_successors=(yield from array_steps(r, r.int32)) if version <= 0 else [],
            preferred_candidates=(yield from structs_steps(r, ReplicaInfo.read, version)) if version >= 1 else [],
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
        w.int32(self.leader_id)
        w.int32(self.leader_epoch)
        if version <= 0:
            w.array(w.int32, self.preferred_successors)
        if version >= 1:
            w.structs(self.preferred_candidates, version)
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
            partitions=(yield from nested_steps(r, PartitionData.read_steps, version)),
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


class EndQuorumEpochRequest(Message):
    __slots__ = ("cluster_id", "topics", "leader_endpoints", "unknown_tags")
    API_KEY = 54
    VERSIONS = range(2)
    FLEXIBLE_FROM = 1

    def __init__(
        self, *,
        cluster_id: str | None = None,
        topics: Iterable[TopicData] = (),
        leader_endpoints: Iterable[LeaderEndpoint] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.cluster_id = cluster_id
        self.topics = list(topics)
        self.leader_endpoints = list(leader_endpoints)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            cluster_id=r.nullable_string(),
            topics=r.structs(TopicData.read, version),
            leader_endpoints=r.structs(LeaderEndpoint.read, version) if version >= 1 else [],
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            cluster_id=r.nullable_string(),
            topics=(yield from nested_steps(r, TopicData.read_steps, version)),
            leader_endpoints=(yield from structs_steps(r, LeaderEndpoint.read, version)) if version >= 1 else [],
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.nullable_string(self.cluster_id)
        w.structs(self.topics, version)
        if version >= 1:
            w.structs(self.leader_endpoints, version)
        w.tags(self.unknown_tags)
