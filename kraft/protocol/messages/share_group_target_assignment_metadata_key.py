"""ShareGroupTargetAssignmentMetadataKey, version 0, never flexible.

Made by tools/protocol.py from schemas/messages/ShareGroupTargetAssignmentMetadataKey.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message
from kraft_native.base.wire import WireReader, WireWriter


class ShareGroupTargetAssignmentMetadataKey(Message):
    __slots__ = ("group_id",)
    API_KEY = 12
    VERSIONS = range(1)

    def __init__(
        self, *,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group_id=r.string(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.group_id)
