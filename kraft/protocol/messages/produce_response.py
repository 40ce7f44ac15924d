"""ProduceResponse, versions 3 to 13, flexible from 9.

Made by tools/protocol.py from schemas/messages/ProduceResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class BatchIndexAndErrorMessage(Struct):
    __slots__ = ("batch_index", "batch_index_error_message", "unknown_tags")

    def __init__(
        self, *,
        batch_index: int = 0,
        batch_index_error_message: str | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.batch_index = batch_index
        self.batch_index_error_message = batch_index_error_message
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            batch_index=r.int32(),
            batch_index_error_message=r.nullable_string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.batch_index)
        w.nullable_string(self.batch_index_error_message)
        w.tags(self.unknown_tags)


class LeaderIdAndEpoch(Struct):
    __slots__ = ("leader_id", "leader_epoch", "unknown_tags")

    def __init__(
        self, *,
        leader_id: int = -1,
        leader_epoch: int = -1,
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


class PartitionProduceResponse(Struct):
    __slots__ = (
        "index", "error_code", "base_offset", "log_append_time_ms", "log_start_offset", "record_errors",
        "error_message", "current_leader", "unknown_tags",
    )

    def __init__(
        self, *,
        index: int = 0,
        error_code: int = 0,
        base_offset: int = 0,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: Iterable[BatchIndexAndErrorMessage] = (),
        error_message: str | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors = list(record_errors)
        self.error_message = error_message
        self.current_leader = LeaderIdAndEpoch() if current_leader is None else current_leader
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            index=r.int32(),
            error_code=r.int16(),
            base_offset=r.int64(),
            log_append_time_ms=r.int64(),
            log_start_offset=r.int64() if version >= 5 else -1,
            record_errors=r.structs(BatchIndexAndErrorMessage.read, version) if version >= 8 else [],
            error_message=r.nullable_string() if version >= 8 else None,
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0 and version >= 10:
                struct.current_leader = LeaderIdAndEpoch.read(value, version)
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        struct = cls(
            index=r.int32(),
            error_code=r.int16(),
            base_offset=r.int64(),
            log_append_time_ms=r.int64(),
            log_start_offset=r.int64() if version >= 5 else -1,
            record_errors=(
                (yield from structs_steps(r, BatchIndexAndErrorMessage.read, version))
                if version >= 8
                else []
            ),
            error_message=r.nullable_string() if version >= 8 else None,
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0 and version >= 10:
                struct.current_leader = LeaderIdAndEpoch.read(value, version)
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.index)
        w.int16(self.error_code)
        w.int64(self.base_offset)
        w.int64(self.log_append_time_ms)
        if version >= 5:
            w.int64(self.log_start_offset)
        if version >= 8:
            w.structs(self.record_errors, version)
        if version >= 8:
            w.nullable_string(self.error_message)
        tags = list(self.unknown_tags)
        if self.current_leader != LeaderIdAndEpoch():
            if version < 10:
                raise absent(self, "current_leader", version)
            value = WireWriter(True)
            self.current_leader.write(value, version)
            tags.append((0, value.finish()))
        w.tags(tags)


class TopicProduceResponse(Struct):
    __slots__ = ("name", "topic_id", "partition_responses", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        topic_id: UUID = ZERO_UUID,
        partition_responses: Iterable[PartitionProduceResponse] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_responses = list(partition_responses)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string() if version <= 12 else "",
            topic_id=r.uuid() if version >= 13 else ZERO_UUID,
            partition_responses=r.structs(PartitionProduceResponse.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string() if version <= 12 else "",
            topic_id=r.uuid() if version >= 13 else ZERO_UUID,
            partition_responses=(yield from nested_steps(r, PartitionProduceResponse.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version <= 12:
            w.string(self.name)
        if version >= 13:
            w.uuid(self.topic_id)
        w.structs(self.partition_responses, version)
        w.tags(self.unknown_tags)


class NodeEndpoint(Struct):
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
            rack=r.nullable_string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.node_id)
        w.string(self.host)
        w.int32(self.port)
        w.nullable_string(self.rack)
        w.tags(self.unknown_tags)


class ProduceResponse(Message):
    __slots__ = ("responses", "throttle_time_ms", "node_endpoints", "unknown_tags")
    API_KEY = 0
    VERSIONS = range(3, 14)
    FLEXIBLE_FROM = 9

    def __init__(
        self, *,
        responses: Iterable[TopicProduceResponse] = (),
        throttle_time_ms: int = 0,
        node_endpoints: Iterable[NodeEndpoint] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.responses = list(responses)
        self.throttle_time_ms = throttle_time_ms
        self.node_endpoints = list(node_endpoints)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            responses=r.structs(TopicProduceResponse.read, version),
            throttle_time_ms=r.int32(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0 and version >= 10:
                struct.node_endpoints = value.structs(NodeEndpoint.read, version)
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        struct = cls(
            responses=(yield from nested_steps(r, TopicProduceResponse.read_steps, version)),
            throttle_time_ms=r.int32(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0 and version >= 10:
                struct.node_endpoints = (yield from structs_steps(value, NodeEndpoint.read, version))
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.structs(self.responses, version)
        w.int32(self.throttle_time_ms)
        tags = list(self.unknown_tags)
        if self.node_endpoints != []:
            if version < 10:
                raise absent(self, "node_endpoints", version)
            value = WireWriter(True)
            value.structs(self.node_endpoints, version)
            tags.append((0, value.finish()))
        w.tags(tags)
