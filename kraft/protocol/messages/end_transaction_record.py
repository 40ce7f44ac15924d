"""EndTransactionRecord, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/EndTransactionRecord.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class EndTransactionRecord(Message):
    __slots__ = ("unknown_tags",)
    API_KEY = 24
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        unknown_tags: Tags = (),
    ) -> None:
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.tags(self.unknown_tags)
