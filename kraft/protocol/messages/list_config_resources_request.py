"""ListConfigResourcesRequest, versions 0 to 1, flexible from 0.

Made by tools/protocol.py from schemas/messages/ListConfigResourcesRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps


class ListConfigResourcesRequest(Message):
    __slots__ = ("resource_types", "unknown_tags")
    API_KEY = 74
    VERSIONS = range(2)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        resource_types: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.resource_types = list(resource_types)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            resource_types=r.array(r.int8) if version >= 1 else [],
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            resource_types=(yield from array_steps(r, r.int8)) if version >= 1 else [],
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version >= 1:
            w.array(w.int8, self.resource_types)
        elif self.resource_types != []:
            raise absent(self, "resource_types", version)
        w.tags(self.unknown_tags)
