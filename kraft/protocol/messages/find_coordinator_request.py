"""FindCoordinatorRequest, versions 0 to 6, flexible from 3.

Made by tools/protocol.py from schemas/messages/FindCoordinatorRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps


class FindCoordinatorRequest(Message):
    __slots__ = ("key", "key_type", "coordinator_keys", "unknown_tags")
    API_KEY = 10
    VERSIONS = range(7)
    FLEXIBLE_FROM = 3

    def __init__(
        self, *,
        key: str = "",
        key_type: int = 0,
        coordinator_keys: Iterable[str] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.key = key
        self.key_type = key_type
        self.coordinator_keys = list(coordinator_keys)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            key=r.string() if version <= 3 else "",
            key_type=r.int8() if version >= 1 else 0,
            coordinator_keys=r.array(r.string) if version >= 4 else [],
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            key=r.string() if version <= 3 else "",
            key_type=r.int8() if version >= 1 else 0,
            coordinator_keys=(yield from array_steps(r, r.string)) if version >= 4 else [],
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version <= 3:
            w.string(self.key)
        elif self.key != "":
            raise absent(self, "key", version)
        if version >= 1:
            w.int8(self.key_type)
        elif self.key_type != 0:
            raise absent(self, "key_type", version)
        if version >= 4:
            w.array(w.string, self.coordinator_keys)
        elif self.coordinator_keys != []:
            raise absent(self, "coordinator_keys", version)
        w.tags(self.unknown_tags)
