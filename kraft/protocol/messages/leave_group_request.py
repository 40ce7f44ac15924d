"""LeaveGroupRequest, versions 0 to 5, flexible from 4.

Made by tools/protocol.py from schemas/messages/LeaveGroupRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class MemberIdentity(Struct):
    __slots__ = ("member_id", "group_instance_id", "reason", "unknown_tags")

    def __init__(
        self, *,
        member_id: str = "",
        group_instance_id: str | None = None,
        reason: str | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.reason = reason
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            member_id=r.string(),
            group_instance_id=r.nullable_string(),
            reason=r.nullable_string() if version >= 5 else None,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.member_id)
        w.nullable_string(self.group_instance_id)
        if version >= 5:
            w.nullable_string(self.reason)
        w.tags(self.unknown_tags)


class LeaveGroupRequest(Message):
    __slots__ = ("group_id", "member_id", "members", "unknown_tags")
    API_KEY = 13
    VERSIONS = range(6)
    FLEXIBLE_FROM = 4

    def __init__(
        self, *,
        group_id: str = "",
        member_id: str = "",
        members: Iterable[MemberIdentity] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.members = list(members)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group_id=r.string(),
            member_id=r.string() if version <= 2 else "",
            members=r.structs(MemberIdentity.read, version) if version >= 3 else [],
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            group_id=r.string(),
            member_id=r.string() if version <= 2 else "",
            members=(yield from structs_steps(r, MemberIdentity.read, version)) if version >= 3 else [],
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.group_id)
        if version <= 2:
            w.string(self.member_id)
        elif self.member_id != "":
            raise absent(self, "member_id", version)
        if version >= 3:
            w.structs(self.members, version)
        elif self.members != []:
            raise absent(self, "members", version)
        w.tags(self.unknown_tags)
