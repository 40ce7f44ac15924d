"""VotersRecord, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/VotersRecord.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, nullable_structs_steps, structs_steps


class Endpoint(Struct):
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


class Voter(Struct):
    __slots__ = ("voter_id", "voter_directory_id", "endpoints", "kraft_version_feature", "unknown_tags")

    def __init__(
        self, *,
        voter_id: int = 0,
        voter_directory_id: UUID = ZERO_UUID,
        endpoints: Iterable[Endpoint] = (),
        kraft_version_feature: KRaftVersionFeature | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.endpoints = list(endpoints)
        self.kraft_version_feature = KRaftVersionFeature() if kraft_version_feature is None else kraft_version_feature
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            voter_id=r.int32(),
            voter_directory_id=r.uuid(),
            endpoints=r.structs(Endpoint.read, version),
            kraft_version_feature=KRaftVersionFeature.read(r, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            voter_id=r.int32(),
            voter_directory_id=r.uuid(),
            endpoints=(yield from structs_steps(r, Endpoint.read, version)),
            kraft_version_feature=KRaftVersionFeature.read(r, version),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.voter_id)
        w.uuid(self.voter_directory_id)
        w.structs(self.endpoints, version)
        self.kraft_version_feature.write(w, version)
        w.tags(self.unknown_tags)


class TargetVoter(Struct):
    __slots__ = ("voter_id", "voter_directory_id", "unknown_tags")

    def __init__(
        self, *,
        voter_id: int = 0,
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


class VotersRecord(Message):
    __slots__ = ("version", "voters", "target_voters", "cluster_id", "unknown_tags")
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        version: int = 0,
        voters: Iterable[Voter] = (),
        target_voters: Iterable[TargetVoter] | None = None,
        cluster_id: str | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.version = version
        self.voters = list(voters)
        self.target_voters = None if target_voters is None else list(target_voters)
        self.cluster_id = cluster_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            version=r.int16(),
            voters=r.structs(Voter.read, version),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 100:
                struct.target_voters = value.nullable_structs(TargetVoter.read, version)
                value.finish()
            elif tag == 101:
                struct.cluster_id = value.nullable_string()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        struct = cls(
            version=r.int16(),
            voters=(yield from nested_steps(r, Voter.read_steps, version)),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 100:
                struct.target_voters = (yield from nullable_structs_steps(value, TargetVoter.read, version))
                value.finish()
            elif tag == 101:
                struct.cluster_id = value.nullable_string()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.version)
        w.structs(self.voters, version)
        tags = list(self.unknown_tags)
        if self.target_voters is not None:
            value = WireWriter(True)
            value.nullable_structs(self.target_voters, version)
            tags.append((100, value.finish()))
        if self.cluster_id is not None:
            value = WireWriter(True)
            value.nullable_string(self.cluster_id)
            tags.append((101, value.finish()))
        w.tags(tags)
