"""DescribeUserScramCredentialsResponse, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/DescribeUserScramCredentialsResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class CredentialInfo(Struct):
    __slots__ = ("mechanism", "iterations", "unknown_tags")

    def __init__(
        self, *,
        mechanism: int = 0,
        iterations: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.mechanism = mechanism
        self.iterations = iterations
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            mechanism=r.int8(),
            iterations=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int8(self.mechanism)
        w.int32(self.iterations)
        w.tags(self.unknown_tags)


class DescribeUserScramCredentialsResult(Struct):
    __slots__ = ("user", "error_code", "error_message", "credential_infos", "unknown_tags")

    def __init__(
        self, *,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = "",
        credential_infos: Iterable[CredentialInfo] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message
        self.credential_infos = list(credential_infos)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            user=r.string(),
            error_code=r.int16(),
            error_message=r.nullable_string(),
            credential_infos=r.structs(CredentialInfo.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            user=r.string(),
            error_code=r.int16(),
            error_message=r.nullable_string(),
            credential_infos=(yield from structs_steps(r, CredentialInfo.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.user)
        w.int16(self.error_code)
        w.nullable_string(self.error_message)
        w.structs(self.credential_infos, version)
        w.tags(self.unknown_tags)


class DescribeUserScramCredentialsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "results", "unknown_tags")
    API_KEY = 50
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: Iterable[DescribeUserScramCredentialsResult] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = list(results)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16(),
            error_message=r.nullable_string(),
            results=r.structs(DescribeUserScramCredentialsResult.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16(),
            error_message=r.nullable_string(),
            results=(yield from nested_steps(r, DescribeUserScramCredentialsResult.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        w.int16(self.error_code)
        w.nullable_string(self.error_message)
        w.structs(self.results, version)
        w.tags(self.unknown_tags)
