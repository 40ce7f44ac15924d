"""DescribeClusterResponse, versions 0 to 2, flexible from 0.

Made by tools/protocol.py from schemas/messages/DescribeClusterResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, structs_steps


class DescribeClusterBroker(Struct):
    __slots__ = ("broker_id", "host", "port", "rack", "is_fenced", "unknown_tags")

    def __init__(
        self, *,
        broker_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
        is_fenced: bool = False,
        unknown_tags: Tags = (),
    ) -> None:
        self.broker_id = broker_id
        self.host = host
        self.port = port
        self.rack = rack
        self.is_fenced = is_fenced
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            broker_id=r.int32(),
            host=r.string(),
            port=r.int32(),
            rack=r.nullable_string(),
            is_fenced=r.boolean() if version >= 2 else False,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.broker_id)
        w.string(self.host)
        w.int32(self.port)
        w.nullable_string(self.rack)
        if version >= 2:
            w.boolean(self.is_fenced)
        elif self.is_fenced:
            raise absent(self, "is_fenced", version)
        w.tags(self.unknown_tags)


class DescribeClusterResponse(Message):
    __slots__ = (
        "throttle_time_ms", "error_code", "error_message", "endpoint_type", "cluster_id", "controller_id", "brokers",
        "cluster_authorized_operations", "lease_ended_ms", "lost_records", "stray_partitions", "unknown_tags",
    )
    API_KEY = 60
    VERSIONS = range(3)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        endpoint_type: int = 1,
        cluster_id: str = "",
        controller_id: int = -1,
        brokers: Iterable[DescribeClusterBroker] = (),
        cluster_authorized_operations: int = -2147483648,
        lease_ended_ms: int = -1,
        lost_records: Iterable[str] = (),
        stray_partitions: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.endpoint_type = endpoint_type
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.brokers = list(brokers)
        self.cluster_authorized_operations = cluster_authorized_operations
        self.lease_ended_ms = lease_ended_ms
        self.lost_records = list(lost_records)
        self.stray_partitions = stray_partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16(),
            error_message=r.nullable_string(),
            endpoint_type=r.int8() if version >= 1 else 1,
            cluster_id=r.string(),
            controller_id=r.int32(),
            brokers=r.structs(DescribeClusterBroker.read, version),
            cluster_authorized_operations=r.int32(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 100:
                struct.lease_ended_ms = value.int64()
                value.finish()
            elif tag == 101:
                struct.lost_records = value.array(value.string)
                value.finish()
            elif tag == 102:
                struct.stray_partitions = value.int32()
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
            error_message=r.nullable_string(),
            endpoint_type=r.int8() if version >= 1 else 1,
            cluster_id=r.string(),
            controller_id=r.int32(),
            brokers=(yield from structs_steps(r, DescribeClusterBroker.read, version)),
            cluster_authorized_operations=r.int32(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 100:
                struct.lease_ended_ms = value.int64()
                value.finish()
            elif tag == 101:
                struct.lost_records = (yield from array_steps(value, value.string))
                value.finish()
            elif tag == 102:
                struct.stray_partitions = value.int32()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        w.int16(self.error_code)
        w.nullable_string(self.error_message)
        if version >= 1:
            w.int8(self.endpoint_type)
        elif self.endpoint_type != 1:
            raise absent(self, "endpoint_type", version)
        w.string(self.cluster_id)
        w.int32(self.controller_id)
        w.structs(self.brokers, version)
        w.int32(self.cluster_authorized_operations)
        tags = list(self.unknown_tags)
        if self.lease_ended_ms != -1:
            value = WireWriter(True)
            value.int64(self.lease_ended_ms)
            tags.append((100, value.finish()))
        if self.lost_records != []:
            value = WireWriter(True)
            value.array(value.string, self.lost_records)
            tags.append((101, value.finish()))
        if self.stray_partitions != 0:
            value = WireWriter(True)
            value.int32(self.stray_partitions)
            tags.append((102, value.finish()))
        w.tags(tags)
