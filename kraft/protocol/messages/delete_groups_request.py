"""DeleteGroupsRequest, versions 0 to 2, flexible from 2.

Made by tools/protocol.py from schemas/messages/DeleteGroupsRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps


class DeleteGroupsRequest(Message):
    __slots__ = ("groups_names", "unknown_tags")
    API_KEY = 42
    VERSIONS = range(3)
    FLEXIBLE_FROM = 2

    def __init__(
        self, *,
        groups_names: Iterable[str] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.groups_names = list(groups_names)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            groups_names=r.array(r.string),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            groups_names=(yield from array_steps(r, r.string)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.array(w.string, self.groups_names)
        w.tags(self.unknown_tags)
