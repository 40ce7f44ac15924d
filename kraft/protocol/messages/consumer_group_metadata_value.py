"""ConsumerGroupMetadataValue, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/ConsumerGroupMetadataValue.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class ConsumerGroupMetadataValue(Message):
    __slots__ = ("epoch", "metadata_hash", "unknown_tags")
    API_KEY = 3
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
        struct = cls(
            epoch=r.int32(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.metadata_hash = value.int64()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.epoch)
        tags = list(self.unknown_tags)
        if self.metadata_hash != 0:
            value = WireWriter(True)
            value.int64(self.metadata_hash)
            tags.append((0, value.finish()))
        w.tags(tags)
