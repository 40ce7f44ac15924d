"""QuorumStateData, versions 0 to 1, flexible from 0.

Made by tools/protocol.py from schemas/messages/QuorumStateData.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nullable_structs_steps


class Voter(Struct):
    __slots__ = ("voter_id", "unknown_tags")

    def __init__(
        self, *,
        voter_id: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.voter_id = voter_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            voter_id=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.voter_id)
        w.tags(self.unknown_tags)


class QuorumStateData(Message):
    __slots__ = (
        "cluster_id", "leader_id", "leader_epoch", "voted_id", "voted_directory_id", "applied_offset", "current_voters",
        "unknown_tags",
    )
    VERSIONS = range(2)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        cluster_id: str = "",
        leader_id: int = -1,
        leader_epoch: int = -1,
        voted_id: int = -1,
        voted_directory_id: UUID = ZERO_UUID,
        applied_offset: int = 0,
        current_voters: Iterable[Voter] | None = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.cluster_id = cluster_id
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.voted_id = voted_id
        self.voted_directory_id = voted_directory_id
        self.applied_offset = applied_offset
        self.current_voters = None if current_voters is None else list(current_voters)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            cluster_id=r.string() if version <= 0 else "",
            leader_id=r.int32(),
            leader_epoch=r.int32(),
            voted_id=r.int32(),
            voted_directory_id=r.uuid() if version >= 1 else ZERO_UUID,
            applied_offset=r.int64() if version <= 0 else 0,
            current_voters=r.nullable_structs(Voter.read, version) if version <= 0 else [],
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            cluster_id=r.string() if version <= 0 else "",
            leader_id=r.int32(),
            leader_epoch=r.int32(),
            voted_id=r.int32(),
            voted_directory_id=r.uuid() if version >= 1 else ZERO_UUID,
            applied_offset=r.int64() if version <= 0 else 0,
            current_voters=(yield from nullable_structs_steps(r, Voter.read, version)) if version <= 0 else [],
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version <= 0:
            w.string(self.cluster_id)
        elif self.cluster_id != "":
            raise absent(self, "cluster_id", version)
        w.int32(self.leader_id)
        w.int32(self.leader_epoch)
        w.int32(self.voted_id)
        if version >= 1:
            w.uuid(self.voted_directory_id)
        elif self.voted_directory_id != ZERO_UUID:
            raise absent(self, "voted_directory_id", version)
        if version <= 0:
            w.int64(self.applied_offset)
        elif self.applied_offset != 0:
            raise absent(self, "applied_offset", version)
        if version <= 0:
            w.nullable_structs(self.current_voters, version)
        elif self.current_voters != []:
            raise absent(self, "current_voters", version)
        w.tags(self.unknown_tags)
