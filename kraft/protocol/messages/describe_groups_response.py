"""DescribeGroupsResponse, versions 0 to 6, flexible from 5.

Made by tools/protocol.py from schemas/messages/DescribeGroupsResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class DescribedGroupMember(Struct):
    __slots__ = (
        "member_id", "group_instance_id", "client_id", "client_host", "member_metadata", "member_assignment",
        "unknown_tags",
    )

    def __init__(
        self, *,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        member_metadata: bytes = b"",
        member_assignment: bytes = b"",
        unknown_tags: Tags = (),
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.member_metadata = member_metadata
        self.member_assignment = member_assignment
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            member_id=r.string(),
            group_instance_id=r.nullable_string() if version >= 4 else None,
            client_id=r.string(),
            client_host=r.string(),
            member_metadata=r.blob(),
            member_assignment=r.blob(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.member_id)
        if version >= 4:
            w.nullable_string(self.group_instance_id)
        w.string(self.client_id)
        w.string(self.client_host)
        w.blob(self.member_metadata)
        w.blob(self.member_assignment)
        w.tags(self.unknown_tags)


class DescribedGroup(Struct):
    __slots__ = (
        "error_code", "error_message", "group_id", "group_state", "protocol_type", "protocol_data", "members",
        "authorized_operations", "unknown_tags",
    )

    def __init__(
        self, *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        protocol_type: str = "",
        protocol_data: str = "",
        members: Iterable[DescribedGroupMember] = (),
        authorized_operations: int = -2147483648,
        unknown_tags: Tags = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.protocol_type = protocol_type
        self.protocol_data = protocol_data
        self.members = list(members)
        self.authorized_operations = authorized_operations
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            error_code=r.int16(),
            error_message=r.nullable_string() if version >= 6 else None,
            group_id=r.string(),
            group_state=r.string(),
            protocol_type=r.string(),
            protocol_data=r.string(),
            members=r.structs(DescribedGroupMember.read, version),
            authorized_operations=r.int32() if version >= 3 else -2147483648,
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            error_code=r.int16(),
            error_message=r.nullable_string() if version >= 6 else None,
            group_id=r.string(),
            group_state=r.string(),
            protocol_type=r.string(),
            protocol_data=r.string(),
            members=(yield from structs_steps(r, DescribedGroupMember.read, version)),
            authorized_operations=r.int32() if version >= 3 else -2147483648,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.error_code)
        if version >= 6:
            w.nullable_string(self.error_message)
        elif self.error_message is not None:
            raise absent(self, "error_message", version)
        w.string(self.group_id)
        w.string(self.group_state)
        w.string(self.protocol_type)
        w.string(self.protocol_data)
        w.structs(self.members, version)
        if version >= 3:
            w.int32(self.authorized_operations)
        elif self.authorized_operations != -2147483648:
            raise absent(self, "authorized_operations", version)
        w.tags(self.unknown_tags)


class DescribeGroupsResponse(Message):
    __slots__ = ("throttle_time_ms", "groups", "unknown_tags")
    API_KEY = 15
    VERSIONS = range(7)
    FLEXIBLE_FROM = 5

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        groups: Iterable[DescribedGroup] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = list(groups)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32() if version >= 1 else 0,
            groups=r.structs(DescribedGroup.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32() if version >= 1 else 0,
            groups=(yield from nested_steps(r, DescribedGroup.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version >= 1:
            w.int32(self.throttle_time_ms)
        w.structs(self.groups, version)
        w.tags(self.unknown_tags)
