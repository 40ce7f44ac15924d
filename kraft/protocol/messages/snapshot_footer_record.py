"""SnapshotFooterRecord, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/SnapshotFooterRecord.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class SnapshotFooterRecord(Message):
    __slots__ = ("version", "unknown_tags")
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        version: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.version = version
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            version=r.int16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.version)
        w.tags(self.unknown_tags)
