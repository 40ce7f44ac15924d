"""StreamsGroupMemberMetadataValue, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/StreamsGroupMemberMetadataValue.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class Endpoint(Struct):
    __slots__ = ("host", "port", "unknown_tags")

    def __init__(
        self, *,
        host: str = "",
        port: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.host = host
        self.port = port
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            host=r.string(),
            port=r.uint16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.host)
        w.uint16(self.port)
        w.tags(self.unknown_tags)


class KeyValue(Struct):
    __slots__ = ("key", "value", "unknown_tags")

    def __init__(
        self, *,
        key: str = "",
        value: str = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.key = key
        self.value = value
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            key=r.string(),
            value=r.string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.key)
        w.string(self.value)
        w.tags(self.unknown_tags)


class StreamsGroupMemberMetadataValue(Message):
    __slots__ = (
        "instance_id", "rack_id", "client_id", "client_host", "rebalance_timeout_ms", "topology_epoch", "process_id",
        "user_endpoint", "client_tags", "unknown_tags",
    )
    API_KEY = 19
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        instance_id: str | None = "",
        rack_id: str | None = "",
        client_id: str = "",
        client_host: str = "",
        rebalance_timeout_ms: int = -1,
        topology_epoch: int = 0,
        process_id: str = "",
        user_endpoint: Endpoint | None = None,
        client_tags: Iterable[KeyValue] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.topology_epoch = topology_epoch
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags = list(client_tags)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            instance_id=r.nullable_string(),
            rack_id=r.nullable_string(),
            client_id=r.string(),
            client_host=r.string(),
            rebalance_timeout_ms=r.int32(),
            topology_epoch=r.int32(),
            process_id=r.string(),
            user_endpoint=r.nullable_struct(Endpoint.read, version),
            client_tags=r.structs(KeyValue.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            instance_id=r.nullable_string(),
            rack_id=r.nullable_string(),
            client_id=r.string(),
            client_host=r.string(),
            rebalance_timeout_ms=r.int32(),
            topology_epoch=r.int32(),
            process_id=r.string(),
            user_endpoint=r.nullable_struct(Endpoint.read, version),
            client_tags=(yield from structs_steps(r, KeyValue.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.nullable_string(self.instance_id)
        w.nullable_string(self.rack_id)
        w.string(self.client_id)
        w.string(self.client_host)
        w.int32(self.rebalance_timeout_ms)
        w.int32(self.topology_epoch)
        w.string(self.process_id)
        w.nullable_struct(self.user_endpoint, version)
        w.structs(self.client_tags, version)
        w.tags(self.unknown_tags)
