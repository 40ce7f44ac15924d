"""AlterUserScramCredentialsResponse, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/AlterUserScramCredentialsResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class AlterUserScramCredentialsResult(Struct):
    __slots__ = ("user", "error_code", "error_message", "unknown_tags")

    def __init__(
        self, *,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            user=r.string(),
            error_code=r.int16(),
            error_message=r.nullable_string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.user)
        w.int16(self.error_code)
        w.nullable_string(self.error_message)
        w.tags(self.unknown_tags)


class AlterUserScramCredentialsResponse(Message):
    __slots__ = ("throttle_time_ms", "results", "unknown_tags")
    API_KEY = 51
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        results: Iterable[AlterUserScramCredentialsResult] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = list(results)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32(),
            results=r.structs(AlterUserScramCredentialsResult.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32(),
            results=(yield from structs_steps(r, AlterUserScramCredentialsResult.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        w.structs(self.results, version)
        w.tags(self.unknown_tags)
