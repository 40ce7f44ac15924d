"""AbortTransactionRecord, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/AbortTransactionRecord.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class AbortTransactionRecord(Message):
    __slots__ = ("reason", "unknown_tags")
    API_KEY = 25
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        reason: str | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.reason = reason
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.reason = value.nullable_string()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        tags = list(self.unknown_tags)
        if self.reason is not None:
            value = WireWriter(True)
            value.nullable_string(self.reason)
            tags.append((0, value.finish()))
        w.tags(tags)
