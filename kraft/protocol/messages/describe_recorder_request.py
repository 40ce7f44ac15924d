"""DescribeRecorderRequest, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/DescribeRecorderRequest.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class DescribeRecorderRequest(Message):
    __slots__ = ("max_entries", "unknown_tags")
    API_KEY = 1002
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        max_entries: int = 4096,
        unknown_tags: Tags = (),
    ) -> None:
        self.max_entries = max_entries
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            max_entries=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.max_entries)
        w.tags(self.unknown_tags)
