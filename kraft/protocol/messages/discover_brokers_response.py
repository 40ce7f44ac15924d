"""DiscoverBrokersResponse, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/DiscoverBrokersResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, nullable_structs_steps, structs_steps


class Voter(Struct):
    __slots__ = ("voter_id", "voter_directory_id", "unknown_tags")

    def __init__(
        self, *,
        voter_id: int = -1,
        voter_directory_id: UUID = ZERO_UUID,
        unknown_tags: Tags = (),
    ) -> None:
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            voter_id=r.int32(),
            voter_directory_id=r.uuid(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.voter_id)
        w.uuid(self.voter_directory_id)
        w.tags(self.unknown_tags)


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


class Broker(Struct):
    __slots__ = ("broker_id", "directory_id", "boot_timestamp", "listeners", "unknown_tags")

    def __init__(
        self, *,
        broker_id: int = 0,
        directory_id: UUID = ZERO_UUID,
        boot_timestamp: int = -1,
        listeners: Iterable[Listener] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.broker_id = broker_id
        self.directory_id = directory_id
        self.boot_timestamp = boot_timestamp
        self.listeners = list(listeners)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            broker_id=r.int32(),
            directory_id=r.uuid(),
            boot_timestamp=r.int64(),
            listeners=r.structs(Listener.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            broker_id=r.int32(),
            directory_id=r.uuid(),
            boot_timestamp=r.int64(),
            listeners=(yield from structs_steps(r, Listener.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.broker_id)
        w.uuid(self.directory_id)
        w.int64(self.boot_timestamp)
        w.structs(self.listeners, version)
        w.tags(self.unknown_tags)


class DiscoverBrokersResponse(Message):
    __slots__ = (
        "error_code", "cluster_id", "leader_id", "leader_epoch", "current_voters", "target_voters", "brokers",
        "unknown_tags",
    )
    API_KEY = 1000
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        error_code: int = 0,
        cluster_id: str | None = None,
        leader_id: int = -1,
        leader_epoch: int = -1,
        current_voters: Iterable[Voter] = (),
        target_voters: Iterable[Voter] | None = None,
        brokers: Iterable[Broker] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.error_code = error_code
        self.cluster_id = cluster_id
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.current_voters = list(current_voters)
        self.target_voters = None if target_voters is None else list(target_voters)
        self.brokers = list(brokers)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            error_code=r.int16(),
            cluster_id=r.nullable_string(),
            leader_id=r.int32(),
            leader_epoch=r.int32(),
            current_voters=r.structs(Voter.read, version),
            target_voters=r.nullable_structs(Voter.read, version),
            brokers=r.structs(Broker.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            error_code=r.int16(),
            cluster_id=r.nullable_string(),
            leader_id=r.int32(),
            leader_epoch=r.int32(),
            current_voters=(yield from structs_steps(r, Voter.read, version)),
            target_voters=(yield from nullable_structs_steps(r, Voter.read, version)),
            brokers=(yield from nested_steps(r, Broker.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.error_code)
        w.nullable_string(self.cluster_id)
        w.int32(self.leader_id)
        w.int32(self.leader_epoch)
        w.structs(self.current_voters, version)
        w.nullable_structs(self.target_voters, version)
        w.structs(self.brokers, version)
        w.tags(self.unknown_tags)
