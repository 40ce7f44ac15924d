"""DeleteTopicsResponse, versions 1 to 6, flexible from 4.

Made by tools/protocol.py from schemas/messages/DeleteTopicsResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class DeletableTopicResult(Struct):
    __slots__ = ("name", "topic_id", "error_code", "error_message", "unknown_tags")

    def __init__(
        self, *,
        name: str | None = "",
        topic_id: UUID = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.nullable_string() if version >= 6 else r.string(),
            topic_id=r.uuid() if version >= 6 else ZERO_UUID,
            error_code=r.int16(),
            error_message=r.nullable_string() if version >= 5 else None,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version >= 6:
            w.nullable_string(self.name)
        else:
            w.string(self.name)
        if version >= 6:
            w.uuid(self.topic_id)
        w.int16(self.error_code)
        if version >= 5:
            w.nullable_string(self.error_message)
        w.tags(self.unknown_tags)


class DeleteTopicsResponse(Message):
    __slots__ = ("throttle_time_ms", "responses", "unknown_tags")
    API_KEY = 20
    VERSIONS = range(1, 7)
    FLEXIBLE_FROM = 4

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        responses: Iterable[DeletableTopicResult] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = list(responses)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32(),
            responses=r.structs(DeletableTopicResult.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32(),
            responses=(yield from structs_steps(r, DeletableTopicResult.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        w.structs(self.responses, version)
        w.tags(self.unknown_tags)
