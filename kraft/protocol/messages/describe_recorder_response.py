"""DescribeRecorderResponse, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/DescribeRecorderResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps


class DescribeRecorderResponse(Message):
    __slots__ = ("error_code", "node_id", "entries", "unknown_tags")
    API_KEY = 1002
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        error_code: int = 0,
        node_id: int = -1,
        entries: Iterable[str] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.error_code = error_code
        self.node_id = node_id
        self.entries = list(entries)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            error_code=r.int16(),
            node_id=r.int32(),
            entries=r.array(r.string),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            error_code=r.int16(),
            node_id=r.int32(),
            entries=(yield from array_steps(r, r.string)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.error_code)
        w.int32(self.node_id)
        w.array(w.string, self.entries)
        w.tags(self.unknown_tags)
