"""RegisterBrokerRecord, versions 0 to 4, flexible from 0.

Made by tools/protocol.py from schemas/messages/RegisterBrokerRecord.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nullable_array_steps, structs_steps


class BrokerEndpoint(Struct):
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


class BrokerFeature(Struct):
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


class RegisterBrokerRecord(Message):
    __slots__ = (
        "broker_id", "is_migrating_zk_broker", "incarnation_id", "broker_epoch", "end_points", "features", "rack",
        "fenced", "in_controlled_shutdown", "log_dirs", "cordoned_log_dirs", "unknown_tags",
    )
    API_KEY = 0
    VERSIONS = range(5)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        broker_id: int = 0,
        is_migrating_zk_broker: bool = False,
        incarnation_id: UUID = ZERO_UUID,
        broker_epoch: int = 0,
        end_points: Iterable[BrokerEndpoint] = (),
        features: Iterable[BrokerFeature] = (),
        rack: str | None = "",
        fenced: bool = True,
        in_controlled_shutdown: bool = False,
        log_dirs: Iterable[UUID] = (),
        cordoned_log_dirs: Iterable[UUID] | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.broker_id = broker_id
        self.is_migrating_zk_broker = is_migrating_zk_broker
        self.incarnation_id = incarnation_id
        self.broker_epoch = broker_epoch
        self.end_points = list(end_points)
        self.features = list(features)
        self.rack = rack
        self.fenced = fenced
        self.in_controlled_shutdown = in_controlled_shutdown
        self.log_dirs = list(log_dirs)
        self.cordoned_log_dirs = None if cordoned_log_dirs is None else list(cordoned_log_dirs)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            broker_id=r.int32(),
            is_migrating_zk_broker=r.boolean() if version >= 2 else False,
            incarnation_id=r.uuid(),
            broker_epoch=r.int64(),
            end_points=r.structs(BrokerEndpoint.read, version),
            features=r.structs(BrokerFeature.read, version),
            rack=r.nullable_string(),
            fenced=r.boolean(),
            in_controlled_shutdown=r.boolean() if version >= 1 else False,
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0 and version >= 3:
                struct.log_dirs = value.array(value.uuid)
                value.finish()
            elif tag == 1 and version >= 4:
                struct.cordoned_log_dirs = value.nullable_array(value.uuid)
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        struct = cls(
            broker_id=r.int32(),
            is_migrating_zk_broker=r.boolean() if version >= 2 else False,
            incarnation_id=r.uuid(),
            broker_epoch=r.int64(),
            end_points=(yield from structs_steps(r, BrokerEndpoint.read, version)),
            features=(yield from structs_steps(r, BrokerFeature.read, version)),
            rack=r.nullable_string(),
            fenced=r.boolean(),
            in_controlled_shutdown=r.boolean() if version >= 1 else False,
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0 and version >= 3:
                struct.log_dirs = (yield from array_steps(value, value.uuid))
                value.finish()
            elif tag == 1 and version >= 4:
                struct.cordoned_log_dirs = (yield from nullable_array_steps(value, value.uuid))
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.broker_id)
        if version >= 2:
            w.boolean(self.is_migrating_zk_broker)
        elif self.is_migrating_zk_broker:
            raise absent(self, "is_migrating_zk_broker", version)
        w.uuid(self.incarnation_id)
        w.int64(self.broker_epoch)
        w.structs(self.end_points, version)
        w.structs(self.features, version)
        w.nullable_string(self.rack)
        w.boolean(self.fenced)
        if version >= 1:
            w.boolean(self.in_controlled_shutdown)
        elif self.in_controlled_shutdown:
            raise absent(self, "in_controlled_shutdown", version)
        tags = list(self.unknown_tags)
        if self.log_dirs != []:
            if version < 3:
                raise absent(self, "log_dirs", version)
            value = WireWriter(True)
            value.array(value.uuid, self.log_dirs)
            tags.append((0, value.finish()))
        if self.cordoned_log_dirs is not None:
            if version < 4:
                raise absent(self, "cordoned_log_dirs", version)
            value = WireWriter(True)
            value.nullable_array(value.uuid, self.cordoned_log_dirs)
            tags.append((1, value.finish()))
        w.tags(tags)
