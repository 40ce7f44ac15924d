"""SyncGroupRequest, versions 0 to 5, flexible from 4.

Made by tools/protocol.py from schemas/messages/SyncGroupRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class SyncGroupRequestAssignment(Struct):
    __slots__ = ("member_id", "assignment", "unknown_tags")

    def __init__(
        self, *,
        member_id: str = "",
        assignment: bytes = b"",
        unknown_tags: Tags = (),
    ) -> None:
        self.member_id = member_id
        self.assignment = assignment
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            member_id=r.string(),
            assignment=r.blob(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.member_id)
        w.blob(self.assignment)
        w.tags(self.unknown_tags)


class SyncGroupRequest(Message):
    __slots__ = (
        "group_id", "generation_id", "member_id", "group_instance_id", "protocol_type", "protocol_name", "assignments",
        "unknown_tags",
    )
    API_KEY = 14
    VERSIONS = range(6)
    FLEXIBLE_FROM = 4

    def __init__(
        self, *,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: Iterable[SyncGroupRequestAssignment] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignments = list(assignments)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group_id=r.string(),
            generation_id=r.int32(),
            member_id=r.string(),
            group_instance_id=r.nullable_string() if version >= 3 else None,
            protocol_type=r.nullable_string() if version >= 5 else None,
            protocol_name=r.nullable_string() if version >= 5 else None,
            assignments=r.structs(SyncGroupRequestAssignment.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            group_id=r.string(),
            generation_id=r.int32(),
            member_id=r.string(),
            group_instance_id=r.nullable_string() if version >= 3 else None,
            protocol_type=r.nullable_string() if version >= 5 else None,
            protocol_name=r.nullable_string() if version >= 5 else None,
            assignments=(yield from structs_steps(r, SyncGroupRequestAssignment.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.group_id)
        w.int32(self.generation_id)
        w.string(self.member_id)
        if version >= 3:
            w.nullable_string(self.group_instance_id)
        elif self.group_instance_id is not None:
            raise absent(self, "group_instance_id", version)
        if version >= 5:
            w.nullable_string(self.protocol_type)
        if version >= 5:
            w.nullable_string(self.protocol_name)
        w.structs(self.assignments, version)
        w.tags(self.unknown_tags)
