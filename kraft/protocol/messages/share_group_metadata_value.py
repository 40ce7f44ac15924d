"""ShareGroupMetadataValue, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/ShareGroupMetadataValue.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class ShareGroupMetadataValue(Message):
    __slots__ = ("epoch", "metadata_hash", "unknown_tags")
    API_KEY = 11
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        epoch: int = 0,
        metadata_hash: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.epoch = epoch
        self.metadata_hash = metadata_hash
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            epoch=r.int32(),
            metadata_hash=r.int64(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.epoch)
        w.int64(self.metadata_hash)
        w.tags(self.unknown_tags)
