"""UpdateRaftVoterRequest, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/UpdateRaftVoterRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class Listener(Struct):
    __slots__ = ("name", "host", "port", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        host: str = "",
        port: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            host=r.string(),
            port=r.uint16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.string(self.host)
        w.uint16(self.port)
        w.tags(self.unknown_tags)


class KRaftVersionFeature(Struct):
    __slots__ = ("min_supported_version", "max_supported_version", "unknown_tags")

    def __init__(
        self, *,
        min_supported_version: int = 0,
        max_supported_version: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            min_supported_version=r.int16(),
            max_supported_version=r.int16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.min_supported_version)
        w.int16(self.max_supported_version)
        w.tags(self.unknown_tags)


class UpdateRaftVoterRequest(Message):
    __slots__ = (
        "cluster_id", "current_leader_epoch", "voter_id", "voter_directory_id", "listeners", "kraft_version_feature",
        "unknown_tags",
    )
    API_KEY = 82
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        cluster_id: str | None = "",
        current_leader_epoch: int = 0,
        voter_id: int = 0,
        voter_directory_id: UUID = ZERO_UUID,
        listeners: Iterable[Listener] = (),
        kraft_version_feature: KRaftVersionFeature | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.cluster_id = cluster_id
        self.current_leader_epoch = current_leader_epoch
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.listeners = list(listeners)
        self.kraft_version_feature = KRaftVersionFeature() if kraft_version_feature is None else kraft_version_feature
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            cluster_id=r.nullable_string(),
            current_leader_epoch=r.int32(),
            voter_id=r.int32(),
            voter_directory_id=r.uuid(),
            listeners=r.structs(Listener.read, version),
            kraft_version_feature=KRaftVersionFeature.read(r, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            cluster_id=r.nullable_string(),
            current_leader_epoch=r.int32(),
            voter_id=r.int32(),
            voter_directory_id=r.uuid(),
            listeners=(yield from structs_steps(r, Listener.read, version)),
            kraft_version_feature=KRaftVersionFeature.read(r, version),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.nullable_string(self.cluster_id)
        w.int32(self.current_leader_epoch)
        w.int32(self.voter_id)
        w.uuid(self.voter_directory_id)
        w.structs(self.listeners, version)
        self.kraft_version_feature.write(w, version)
        w.tags(self.unknown_tags)
