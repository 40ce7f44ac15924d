"""ShareGroupCurrentMemberAssignmentKey, version 0, never flexible.

Made by tools/protocol.py from schemas/messages/ShareGroupCurrentMemberAssignmentKey.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message
from kraft_native.base.wire import WireReader, WireWriter


class ShareGroupCurrentMemberAssignmentKey(Message):
    __slots__ = ("group_id", "member_id")
    API_KEY = 14
    VERSIONS = range(1)

    def __init__(
        self, *,
        group_id: str = "",
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group_id=r.string(),
            member_id=r.string(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.group_id)
        w.string(self.member_id)
