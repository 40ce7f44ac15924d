"""ShareGroupTargetAssignmentMetadataValue, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/ShareGroupTargetAssignmentMetadataValue.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class ShareGroupTargetAssignmentMetadataValue(Message):
    __slots__ = ("assignment_epoch", "assignment_timestamp", "unknown_tags")
    API_KEY = 12
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        assignment_epoch: int = 0,
        assignment_timestamp: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.assignment_epoch = assignment_epoch
        self.assignment_timestamp = assignment_timestamp
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            assignment_epoch=r.int32(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.assignment_timestamp = value.int64()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.assignment_epoch)
        tags = list(self.unknown_tags)
        if self.assignment_timestamp != 0:
            value = WireWriter(True)
            value.int64(self.assignment_timestamp)
            tags.append((0, value.finish()))
        w.tags(tags)
