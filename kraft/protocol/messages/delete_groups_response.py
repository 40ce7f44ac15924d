"""DeleteGroupsResponse, versions 0 to 2, flexible from 2.

Made by tools/protocol.py from schemas/messages/DeleteGroupsResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class DeletableGroupResult(Struct):
    __slots__ = ("group_id", "error_code", "unknown_tags")

    def __init__(
        self, *,
        group_id: str = "",
        error_code: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.group_id = group_id
        self.error_code = error_code
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group_id=r.string(),
            error_code=r.int16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.group_id)
        w.int16(self.error_code)
        w.tags(self.unknown_tags)


class DeleteGroupsResponse(Message):
    __slots__ = ("throttle_time_ms", "results", "unknown_tags")
    API_KEY = 42
    VERSIONS = range(3)
    FLEXIBLE_FROM = 2

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        results: Iterable[DeletableGroupResult] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = list(results)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32(),
            results=r.structs(DeletableGroupResult.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32(),
            results=(yield from structs_steps(r, DeletableGroupResult.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        w.structs(self.results, version)
        w.tags(self.unknown_tags)
