"""LeaderChangeMessage, versions 0 to 1, flexible from 0.

Made by tools/protocol.py from schemas/messages/LeaderChangeMessage.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class Voter(Struct):
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
            voter_directory_id=r.uuid() if version >= 1 else ZERO_UUID,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.voter_id)
        if version >= 1:
            w.uuid(self.voter_directory_id)
        elif self.voter_directory_id != ZERO_UUID:
            raise absent(self, "voter_directory_id", version)
        w.tags(self.unknown_tags)


class LeaderChangeMessage(Message):
    __slots__ = ("version", "leader_id", "voters", "granting_voters", "unknown_tags")
    VERSIONS = range(2)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        version: int = 0,
        leader_id: int = 0,
        voters: Iterable[Voter] = (),
        granting_voters: Iterable[Voter] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.version = version
        self.leader_id = leader_id
        self.voters = list(voters)
        self.granting_voters = list(granting_voters)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            version=r.int16(),
            leader_id=r.int32(),
            voters=r.structs(Voter.read, version),
            granting_voters=r.structs(Voter.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            version=r.int16(),
            leader_id=r.int32(),
            voters=(yield from structs_steps(r, Voter.read, version)),
            granting_voters=(yield from structs_steps(r, Voter.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.version)
        w.int32(self.leader_id)
        w.structs(self.voters, version)
        w.structs(self.granting_voters, version)
        w.tags(self.unknown_tags)
