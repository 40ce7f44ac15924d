"""SnapshotHeaderRecord, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/SnapshotHeaderRecord.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class SnapshotHeaderRecord(Message):
    __slots__ = ("version", "last_contained_log_timestamp", "unknown_tags")
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        version: int = 0,
        last_contained_log_timestamp: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.version = version
        self.last_contained_log_timestamp = last_contained_log_timestamp
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            version=r.int16(),
            last_contained_log_timestamp=r.int64(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.version)
        w.int64(self.last_contained_log_timestamp)
        w.tags(self.unknown_tags)
