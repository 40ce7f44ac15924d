"""ListGroupsRequest, versions 0 to 5, flexible from 3.

Made by tools/protocol.py from schemas/messages/ListGroupsRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps


class ListGroupsRequest(Message):
    __slots__ = ("states_filter", "types_filter", "unknown_tags")
    API_KEY = 16
    VERSIONS = range(6)
    FLEXIBLE_FROM = 3

    def __init__(
        self, *,
        states_filter: Iterable[str] = (),
        types_filter: Iterable[str] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.states_filter = list(states_filter)
        self.types_filter = list(types_filter)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            states_filter=r.array(r.string) if version >= 4 else [],
            types_filter=r.array(r.string) if version >= 5 else [],
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            states_filter=(yield from array_steps(r, r.string)) if version >= 4 else [],
            types_filter=(yield from array_steps(r, r.string)) if version >= 5 else [],
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version >= 4:
            w.array(w.string, self.states_filter)
        elif self.states_filter != []:
            raise absent(self, "states_filter", version)
        if version >= 5:
            w.array(w.string, self.types_filter)
        elif self.types_filter != []:
            raise absent(self, "types_filter", version)
        w.tags(self.unknown_tags)
