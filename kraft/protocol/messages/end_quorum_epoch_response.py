"""EndQuorumEpochResponse, versions 0 to 1, flexible from 1.

Made by tools/protocol.py from schemas/messages/EndQuorumEpochResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class PartitionData(Struct):
    __slots__ = ("partition_index", "error_code", "leader_id", "leader_epoch", "unknown_tags")

    def __init__(
        self, *,
        partition_index: int = 0,
        error_code: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_index=r.int32(),
            error_code=r.int16(),
            leader_id=r.int32(),
            leader_epoch=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
        w.int16(self.error_code)
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


class EndQuorumEpochResponse(Message):
    __slots__ = ("error_code", "topics", "node_endpoints", "unknown_tags")
    API_KEY = 54
    VERSIONS = range(2)
    FLEXIBLE_FROM = 1

    def __init__(
        self, *,
        error_code: int = 0,
        topics: Iterable[TopicData] = (),
        node_endpoints: Iterable[NodeEndpoint] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.error_code = error_code
        self.topics = list(topics)
        self.node_endpoints = list(node_endpoints)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            error_code=r.int16(),
            topics=r.structs(TopicData.read, version),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.node_endpoints = value.structs(NodeEndpoint.read, version)
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        struct = cls(
            error_code=r.int16(),
            topics=(yield from nested_steps(r, TopicData.read_steps, version)),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.node_endpoints = (yield from structs_steps(value, NodeEndpoint.read, version))
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
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
