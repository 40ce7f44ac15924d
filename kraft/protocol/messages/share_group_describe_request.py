"""ShareGroupDescribeRequest, version 1, flexible from 1.

Made by tools/protocol.py from schemas/messages/ShareGroupDescribeRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps


class ShareGroupDescribeRequest(Message):
    __slots__ = ("group_ids", "include_authorized_operations", "unknown_tags")
    API_KEY = 77
    VERSIONS = range(1, 2)
    FLEXIBLE_FROM = 1

    def __init__(
        self, *,
        group_ids: Iterable[str] = (),
        include_authorized_operations: bool = False,
        unknown_tags: Tags = (),
    ) -> None:
        self.group_ids = list(group_ids)
        self.include_authorized_operations = include_authorized_operations
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group_ids=r.array(r.string),
            include_authorized_operations=r.boolean(),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            group_ids=(yield from array_steps(r, r.string)),
            include_authorized_operations=r.boolean(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.array(w.string, self.group_ids)
        w.boolean(self.include_authorized_operations)
        w.tags(self.unknown_tags)
