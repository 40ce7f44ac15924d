"""BrokerRegistrationRequest, versions 0 to 4, flexible from 0.

Made by tools/protocol.py from schemas/messages/BrokerRegistrationRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, structs_steps


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


class BrokerRegistrationRequest(Message):
    __slots__ = (
        "broker_id", "cluster_id", "incarnation_id", "listeners", "features", "rack", "is_migrating_zk_broker",
        "log_dirs", "previous_broker_epoch", "unknown_tags",
    )
    API_KEY = 62
    VERSIONS = range(5)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        broker_id: int = 0,
        cluster_id: str = "",
        incarnation_id: UUID = ZERO_UUID,
        listeners: Iterable[Listener] = (),
        features: Iterable[Feature] = (),
        rack: str | None = "",
        is_migrating_zk_broker: bool = False,
        log_dirs: Iterable[UUID] = (),
        previous_broker_epoch: int = -1,
        unknown_tags: Tags = (),
    ) -> None:
        self.broker_id = broker_id
        self.cluster_id = cluster_id
        self.incarnation_id = incarnation_id
        self.listeners = list(listeners)
        self.features = list(features)
        self.rack = rack
        self.is_migrating_zk_broker = is_migrating_zk_broker
        self.log_dirs = list(log_dirs)
        self.previous_broker_epoch = previous_broker_epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            broker_id=r.int32(),
            cluster_id=r.string(),
            incarnation_id=r.uuid(),
            listeners=r.structs(Listener.read, version),
            features=r.structs(Feature.read, version),
            rack=r.nullable_string(),
            is_migrating_zk_broker=r.boolean() if version >= 1 else False,
            log_dirs=r.array(r.uuid) if version >= 2 else [],
            previous_broker_epoch=r.int64() if version >= 3 else -1,
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            broker_id=r.int32(),
            cluster_id=r.string(),
            incarnation_id=r.uuid(),
            listeners=(yield from structs_steps(r, Listener.read, version)),
            features=(yield from structs_steps(r, Feature.read, version)),
            rack=r.nullable_string(),
            is_migrating_zk_broker=r.boolean() if version >= 1 else False,
            log_dirs=(yield from array_steps(r, r.uuid)) if version >= 2 else [],
            previous_broker_epoch=r.int64() if version >= 3 else -1,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.broker_id)
        w.string(self.cluster_id)
        w.uuid(self.incarnation_id)
        w.structs(self.listeners, version)
        w.structs(self.features, version)
        w.nullable_string(self.rack)
        if version >= 1:
            w.boolean(self.is_migrating_zk_broker)
        elif self.is_migrating_zk_broker:
            raise absent(self, "is_migrating_zk_broker", version)
        if version >= 2:
            w.array(w.uuid, self.log_dirs)
        if version >= 3:
            w.int64(self.previous_broker_epoch)
        w.tags(self.unknown_tags)
