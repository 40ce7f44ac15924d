"""KRaftVersionRecord, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/KRaftVersionRecord.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class KRaftVersionRecord(Message):
    __slots__ = ("version", "kraft_version", "unknown_tags")
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        version: int = 0,
        kraft_version: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.version = version
        self.kraft_version = kraft_version
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            version=r.int16(),
            kraft_version=r.int16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.version)
        w.int16(self.kraft_version)
        w.tags(self.unknown_tags)
