"""DescribeGroupsRequest, versions 0 to 6, flexible from 5.

Made by tools/protocol.py from schemas/messages/DescribeGroupsRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps


class DescribeGroupsRequest(Message):
    __slots__ = ("groups", "include_authorized_operations", "unknown_tags")
    API_KEY = 15
    VERSIONS = range(7)
    FLEXIBLE_FROM = 5

    def __init__(
        self, *,
        groups: Iterable[str] = (),
        include_authorized_operations: bool = False,
        unknown_tags: Tags = (),
    ) -> None:
        self.groups = list(groups)
        self.include_authorized_operations = include_authorized_operations
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            groups=r.array(r.string),
            include_authorized_operations=r.boolean() if version >= 3 else False,
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            groups=(yield from array_steps(r, r.string)),
            include_authorized_operations=r.boolean() if version >= 3 else False,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.array(w.string, self.groups)
        if version >= 3:
            w.boolean(self.include_authorized_operations)
        elif self.include_authorized_operations:
            raise absent(self, "include_authorized_operations", version)
        w.tags(self.unknown_tags)
