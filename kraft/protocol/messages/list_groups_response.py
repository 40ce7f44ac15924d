"""ListGroupsResponse, versions 0 to 5, flexible from 3.

Made by tools/protocol.py from schemas/messages/ListGroupsResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class ListedGroup(Struct):
    __slots__ = ("group_id", "protocol_type", "group_state", "group_type", "unknown_tags")

    def __init__(
        self, *,
        group_id: str = "",
        protocol_type: str = "",
        group_state: str = "",
        group_type: str = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.group_id = group_id
        self.protocol_type = protocol_type
        self.group_state = group_state
        self.group_type = group_type
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group_id=r.string(),
            protocol_type=r.string(),
            group_state=r.string() if version >= 4 else "",
            group_type=r.string() if version >= 5 else "",
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.group_id)
        w.string(self.protocol_type)
        if version >= 4:
            w.string(self.group_state)
        if version >= 5:
            w.string(self.group_type)
        w.tags(self.unknown_tags)


class ListGroupsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "groups", "unknown_tags")
    API_KEY = 16
    VERSIONS = range(6)
    FLEXIBLE_FROM = 3

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        groups: Iterable[ListedGroup] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.groups = list(groups)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32() if version >= 1 else 0,
            error_code=r.int16(),
            groups=r.structs(ListedGroup.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32() if version >= 1 else 0,
            error_code=r.int16(),
            groups=(yield from structs_steps(r, ListedGroup.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version >= 1:
            w.int32(self.throttle_time_ms)
        w.int16(self.error_code)
        w.structs(self.groups, version)
        w.tags(self.unknown_tags)
