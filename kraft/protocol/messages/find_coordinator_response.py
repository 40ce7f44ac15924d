"""FindCoordinatorResponse, versions 0 to 6, flexible from 3.

Made by tools/protocol.py from schemas/messages/FindCoordinatorResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class Coordinator(Struct):
    __slots__ = ("key", "node_id", "host", "port", "error_code", "error_message", "unknown_tags")

    def __init__(
        self, *,
        key: str = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.key = key
        self.node_id = node_id
        self.host = host
        self.port = port
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            key=r.string(),
            node_id=r.int32(),
            host=r.string(),
            port=r.int32(),
            error_code=r.int16(),
            error_message=r.nullable_string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.key)
        w.int32(self.node_id)
        w.string(self.host)
        w.int32(self.port)
        w.int16(self.error_code)
        w.nullable_string(self.error_message)
        w.tags(self.unknown_tags)


class FindCoordinatorResponse(Message):
    __slots__ = (
        "throttle_time_ms", "error_code", "error_message", "node_id", "host", "port", "coordinators", "unknown_tags",
    )
    API_KEY = 10
    VERSIONS = range(7)
    FLEXIBLE_FROM = 3

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        coordinators: Iterable[Coordinator] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.node_id = node_id
        self.host = host
        self.port = port
        self.coordinators = list(coordinators)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32() if version >= 1 else 0,
            error_code=r.int16() if version <= 3 else 0,
            error_message=r.nullable_string() if 1 <= version <= 3 else "",
            node_id=r.int32() if version <= 3 else 0,
            host=r.string() if version <= 3 else "",
            port=r.int32() if version <= 3 else 0,
            coordinators=r.structs(Coordinator.read, version) if version >= 4 else [],
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32() if version >= 1 else 0,
            error_code=r.int16() if version <= 3 else 0,
            error_message=r.nullable_string() if 1 <= version <= 3 else "",
            node_id=r.int32() if version <= 3 else 0,
            host=r.string() if version <= 3 else "",
            port=r.int32() if version <= 3 else 0,
            coordinators=(yield from structs_steps(r, Coordinator.read, version)) if version >= 4 else [],
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version >= 1:
            w.int32(self.throttle_time_ms)
        if version <= 3:
            w.int16(self.error_code)
        elif self.error_code != 0:
            raise absent(self, "error_code", version)
        if 1 <= version <= 3:
            w.nullable_string(self.error_message)
        if version <= 3:
            w.int32(self.node_id)
        elif self.node_id != 0:
            raise absent(self, "node_id", version)
        if version <= 3:
            w.string(self.host)
        elif self.host != "":
            raise absent(self, "host", version)
        if version <= 3:
            w.int32(self.port)
        elif self.port != 0:
            raise absent(self, "port", version)
        if version >= 4:
            w.structs(self.coordinators, version)
        elif self.coordinators != []:
            raise absent(self, "coordinators", version)
        w.tags(self.unknown_tags)
