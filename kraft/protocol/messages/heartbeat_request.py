"""HeartbeatRequest, versions 0 to 4, flexible from 4.

Made by tools/protocol.py from schemas/messages/HeartbeatRequest.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter


class HeartbeatRequest(Message):
    __slots__ = ("group_id", "generation_id", "member_id", "group_instance_id", "unknown_tags")
    API_KEY = 12
    VERSIONS = range(5)
    FLEXIBLE_FROM = 4

    def __init__(
        self, *,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group_id=r.string(),
            generation_id=r.int32(),
            member_id=r.string(),
            group_instance_id=r.nullable_string() if version >= 3 else None,
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
        w.tags(self.unknown_tags)
