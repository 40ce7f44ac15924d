"""ResponseHeader, versions 0 to 1, flexible from 1.

Made by tools/protocol.py from schemas/messages/ResponseHeader.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class ResponseHeader(Message):
    __slots__ = ("correlation_id", "unknown_tags")
    VERSIONS = range(2)
    FLEXIBLE_FROM = 1

    def __init__(
        self, *,
        correlation_id: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.correlation_id = correlation_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            correlation_id=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.correlation_id)
        w.tags(self.unknown_tags)
