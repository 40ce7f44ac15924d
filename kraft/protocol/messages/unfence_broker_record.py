"""UnfenceBrokerRecord, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/UnfenceBrokerRecord.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class UnfenceBrokerRecord(Message):
    __slots__ = ("id", "epoch", "unknown_tags")
    API_KEY = 8
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        id: int = 0,
        epoch: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.id = id
        self.epoch = epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            id=r.int32(),
            epoch=r.int64(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.id)
        w.int64(self.epoch)
        w.tags(self.unknown_tags)
