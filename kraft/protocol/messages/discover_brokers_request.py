"""DiscoverBrokersRequest, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/DiscoverBrokersRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class Listener(Struct):
    __slots__ = ("name", "host", "port", "security_protocol", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        host: str = "",
        port: int = 0,
        security_protocol: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.security_protocol = security_protocol
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            host=r.string(),
            port=r.uint16(),
            security_protocol=r.int16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.string(self.host)
        w.uint16(self.port)
        w.int16(self.security_protocol)
        w.tags(self.unknown_tags)


class DiscoverBrokersRequest(Message):
    __slots__ = (
        "cluster_id", "replica_id", "replica_directory_id", "boot_timestamp", "listeners", "leader_id", "leader_epoch",
        "unknown_tags",
    )
    API_KEY = 1000
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        cluster_id: str | None = None,
        replica_id: int = -1,
        replica_directory_id: UUID = ZERO_UUID,
        boot_timestamp: int = -1,
        listeners: Iterable[Listener] = (),
        leader_id: int = -1,
        leader_epoch: int = -1,
        unknown_tags: Tags = (),
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.replica_directory_id = replica_directory_id
        self.boot_timestamp = boot_timestamp
        self.listeners = list(listeners)
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            cluster_id=r.nullable_string(),
            replica_id=r.int32(),
            replica_directory_id=r.uuid(),
            boot_timestamp=r.int64(),
            listeners=r.structs(Listener.read, version),
            leader_id=r.int32(),
            leader_epoch=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            cluster_id=r.nullable_string(),
            replica_id=r.int32(),
            replica_directory_id=r.uuid(),
            boot_timestamp=r.int64(),
            listeners=(yield from structs_steps(r, Listener.read, version)),
            leader_id=r.int32(),
            leader_epoch=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.nullable_string(self.cluster_id)
        w.int32(self.replica_id)
        w.uuid(self.replica_directory_id)
        w.int64(self.boot_timestamp)
        w.structs(self.listeners, version)
        w.int32(self.leader_id)
        w.int32(self.leader_epoch)
        w.tags(self.unknown_tags)
