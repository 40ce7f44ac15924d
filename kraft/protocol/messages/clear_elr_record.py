"""ClearElrRecord, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/ClearElrRecord.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class ClearElrRecord(Message):
    __slots__ = ("topic_name", "unknown_tags")
    API_KEY = 28
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        topic_name: str = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.topic_name = topic_name
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic_name=r.string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.topic_name)
        w.tags(self.unknown_tags)
