"""ShareFetchResponse, versions 1 to 2, flexible from 1.

Made by tools/protocol.py from schemas/messages/ShareFetchResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


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


class AcquiredRecords(Struct):
    __slots__ = ("first_offset", "last_offset", "delivery_count", "unknown_tags")

    def __init__(
        self, *,
        first_offset: int = 0,
        last_offset: int = 0,
        delivery_count: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_count = delivery_count
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            first_offset=r.int64(),
            last_offset=r.int64(),
            delivery_count=r.int16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int64(self.first_offset)
        w.int64(self.last_offset)
        w.int16(self.delivery_count)
        w.tags(self.unknown_tags)


class PartitionData(Struct):
    __slots__ = (
        "partition_index", "error_code", "error_message", "acknowledge_error_code", "acknowledge_error_message",
        "current_leader", "records", "acquired_records", "unknown_tags",
    )

    def __init__(
        self, *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acknowledge_error_code: int = 0,
        acknowledge_error_message: str | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
        records: bytes = b"",
        acquired_records: Iterable[AcquiredRecords] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.acknowledge_error_code = acknowledge_error_code
        self.acknowledge_error_message = acknowledge_error_message
        self.current_leader = LeaderIdAndEpoch() if current_leader is None else current_leader
        self.records = records
        self.acquired_records = list(acquired_records)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_index=r.int32(),
            error_code=r.int16(),
            error_message=r.nullable_string(),
            acknowledge_error_code=r.int16(),
            acknowledge_error_message=r.nullable_string(),
            current_leader=LeaderIdAndEpoch.read(r, version),
            records=r.blob(),
            acquired_records=r.structs(AcquiredRecords.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            partition_index=r.int32(),
            error_code=r.int16(),
            error_message=r.nullable_string(),
            acknowledge_error_code=r.int16(),
            acknowledge_error_message=r.nullable_string(),
            current_leader=LeaderIdAndEpoch.read(r, version),
            records=r.blob(),
            acquired_records=(yield from structs_steps(r, AcquiredRecords.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
        w.int16(self.error_code)
        w.nullable_string(self.error_message)
        w.int16(self.acknowledge_error_code)
        w.nullable_string(self.acknowledge_error_message)
        self.current_leader.write(w, version)
        w.blob(self.records)
        w.structs(self.acquired_records, version)
        w.tags(self.unknown_tags)


class ShareFetchableTopicResponse(Struct):
    __slots__ = ("topic_id", "partitions", "unknown_tags")

    def __init__(
        self, *,
        topic_id: UUID = ZERO_UUID,
        partitions: Iterable[PartitionData] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topic_id = topic_id
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic_id=r.uuid(),
            partitions=r.structs(PartitionData.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topic_id=r.uuid(),
            partitions=(yield from nested_steps(r, PartitionData.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.uuid(self.topic_id)
        w.structs(self.partitions, version)
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


class ShareFetchResponse(Message):
    __slots__ = (
        "throttle_time_ms", "error_code", "error_message", "acquisition_lock_timeout_ms", "responses", "node_endpoints",
        "unknown_tags",
    )
    API_KEY = 78
    VERSIONS = range(1, 3)
    FLEXIBLE_FROM = 1

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acquisition_lock_timeout_ms: int = 0,
        responses: Iterable[ShareFetchableTopicResponse] = (),
        node_endpoints: Iterable[NodeEndpoint] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.acquisition_lock_timeout_ms = acquisition_lock_timeout_ms
        self.responses = list(responses)
        self.node_endpoints = list(node_endpoints)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16(),
            error_message=r.nullable_string(),
            acquisition_lock_timeout_ms=r.int32(),
            responses=r.structs(ShareFetchableTopicResponse.read, version),
            node_endpoints=r.structs(NodeEndpoint.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16(),
            error_message=r.nullable_string(),
            acquisition_lock_timeout_ms=r.int32(),
            responses=(yield from nested_steps(r, ShareFetchableTopicResponse.read_steps, version)),
            node_endpoints=(yield from structs_steps(r, NodeEndpoint.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        w.int16(self.error_code)
        w.nullable_string(self.error_message)
        w.int32(self.acquisition_lock_timeout_ms)
        w.structs(self.responses, version)
        w.structs(self.node_endpoints, version)
        w.tags(self.unknown_tags)
