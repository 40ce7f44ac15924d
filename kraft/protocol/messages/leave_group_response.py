"""LeaveGroupResponse, versions 0 to 5, flexible from 4.

Made by tools/protocol.py from schemas/messages/LeaveGroupResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class MemberResponse(Struct):
    __slots__ = ("member_id", "group_instance_id", "error_code", "unknown_tags")

    def __init__(
        self, *,
        member_id: str = "",
        group_instance_id: str | None = "",
        error_code: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.error_code = error_code
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            member_id=r.string(),
            group_instance_id=r.nullable_string(),
            error_code=r.int16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.member_id)
        w.nullable_string(self.group_instance_id)
        w.int16(self.error_code)
        w.tags(self.unknown_tags)


class LeaveGroupResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "members", "unknown_tags")
    API_KEY = 13
    VERSIONS = range(6)
    FLEXIBLE_FROM = 4

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        members: Iterable[MemberResponse] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.members = list(members)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32() if version >= 1 else 0,
            error_code=r.int16(),
            members=r.structs(MemberResponse.read, version) if version >= 3 else [],
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32() if version >= 1 else 0,
            error_code=r.int16(),
            members=(yield from structs_steps(r, MemberResponse.read, version)) if version >= 3 else [],
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version >= 1:
            w.int32(self.throttle_time_ms)
        w.int16(self.error_code)
        if version >= 3:
            w.structs(self.members, version)
        elif self.members != []:
            raise absent(self, "members", version)
        w.tags(self.unknown_tags)
