"""RemoveDelegationTokenRecord, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/RemoveDelegationTokenRecord.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class RemoveDelegationTokenRecord(Message):
    __slots__ = ("token_id", "unknown_tags")
    API_KEY = 26
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        token_id: str = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.token_id = token_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            token_id=r.string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.token_id)
        w.tags(self.unknown_tags)
