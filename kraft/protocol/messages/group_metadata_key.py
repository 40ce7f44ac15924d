"""GroupMetadataKey, version 0, never flexible.

Made by tools/protocol.py from schemas/messages/GroupMetadataKey.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message
from kraft_native.base.wire import WireReader, WireWriter


class GroupMetadataKey(Message):
    __slots__ = ("group",)
    API_KEY = 2
    VERSIONS = range(1)

    def __init__(
        self, *,
        group: str = "",
    ) -> None:
        self.group = group

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group=r.string(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.group)
