"""JoinGroupResponse, versions 0 to 9, flexible from 6.

Made by tools/protocol.py from schemas/messages/JoinGroupResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class JoinGroupResponseMember(Struct):
    __slots__ = ("member_id", "group_instance_id", "metadata", "unknown_tags")

    def __init__(
        self, *,
        member_id: str = "",
        group_instance_id: str | None = None,
        metadata: bytes = b"",
        unknown_tags: Tags = (),
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.metadata = metadata
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            member_id=r.string(),
            group_instance_id=r.nullable_string() if version >= 5 else None,
            metadata=r.blob(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.member_id)
        if version >= 5:
            w.nullable_string(self.group_instance_id)
        w.blob(self.metadata)
        w.tags(self.unknown_tags)


class JoinGroupResponse(Message):
    __slots__ = (
        "throttle_time_ms", "error_code", "generation_id", "protocol_type", "protocol_name", "leader",
        "skip_assignment", "member_id", "members", "unknown_tags",
    )
    API_KEY = 11
    VERSIONS = range(10)
    FLEXIBLE_FROM = 6

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        generation_id: int = -1,
        protocol_type: str | None = None,
        protocol_name: str | None = "",
        leader: str = "",
        skip_assignment: bool = False,
        member_id: str = "",
        members: Iterable[JoinGroupResponseMember] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader = leader
        self.skip_assignment = skip_assignment
        self.member_id = member_id
        self.members = list(members)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32() if version >= 2 else 0,
            error_code=r.int16(),
            generation_id=r.int32(),
            protocol_type=r.nullable_string() if version >= 7 else None,
            protocol_name=r.nullable_string() if version >= 7 else r.string(),
            leader=r.string(),
            skip_assignment=r.boolean() if version >= 9 else False,
            member_id=r.string(),
            members=r.structs(JoinGroupResponseMember.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32() if version >= 2 else 0,
            error_code=r.int16(),
            generation_id=r.int32(),
            protocol_type=r.nullable_string() if version >= 7 else None,
            protocol_name=r.nullable_string() if version >= 7 else r.string(),
            leader=r.string(),
            skip_assignment=r.boolean() if version >= 9 else False,
            member_id=r.string(),
            members=(yield from structs_steps(r, JoinGroupResponseMember.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version >= 2:
            w.int32(self.throttle_time_ms)
        w.int16(self.error_code)
        w.int32(self.generation_id)
        if version >= 7:
            w.nullable_string(self.protocol_type)
        if version >= 7:
            w.nullable_string(self.protocol_name)
        else:
            w.string(self.protocol_name)
        w.string(self.leader)
        if version >= 9:
            w.boolean(self.skip_assignment)
        elif self.skip_assignment:
            raise absent(self, "skip_assignment", version)
        w.string(self.member_id)
        w.structs(self.members, version)
        w.tags(self.unknown_tags)
