"""ControllerRegistrationRequest, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/ControllerRegistrationRequest.json: change that.
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


class Feature(Struct):
    __slots__ = ("name", "min_supported_version", "max_supported_version", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        min_supported_version: int = 0,
        max_supported_version: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            min_supported_version=r.int16(),
            max_supported_version=r.int16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.int16(self.min_supported_version)
        w.int16(self.max_supported_version)
        w.tags(self.unknown_tags)


class ControllerRegistrationRequest(Message):
    __slots__ = ("controller_id", "incarnation_id", "zk_migration_ready", "listeners", "features", "unknown_tags")
    API_KEY = 70
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        controller_id: int = 0,
        incarnation_id: UUID = ZERO_UUID,
        zk_migration_ready: bool = False,
        listeners: Iterable[Listener] = (),
        features: Iterable[Feature] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.controller_id = controller_id
        self.incarnation_id = incarnation_id
        self.zk_migration_ready = zk_migration_ready
        self.listeners = list(listeners)
        self.features = list(features)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            controller_id=r.int32(),
            incarnation_id=r.uuid(),
            zk_migration_ready=r.boolean(),
            listeners=r.structs(Listener.read, version),
            features=r.structs(Feature.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            controller_id=r.int32(),
            incarnation_id=r.uuid(),
            zk_migration_ready=r.boolean(),
            listeners=(yield from structs_steps(r, Listener.read, version)),
            features=(yield from structs_steps(r, Feature.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.controller_id)
        w.uuid(self.incarnation_id)
        w.boolean(self.zk_migration_ready)
        w.structs(self.listeners, version)
        w.structs(self.features, version)
        w.tags(self.unknown_tags)
