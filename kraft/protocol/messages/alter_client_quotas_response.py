"""AlterClientQuotasResponse, versions 0 to 1, flexible from 1.

Made by tools/protocol.py from schemas/messages/AlterClientQuotasResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class EntityData(Struct):
    __slots__ = ("entity_type", "entity_name", "unknown_tags")

    def __init__(
        self, *,
        entity_type: str = "",
        entity_name: str | None = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            entity_type=r.string(),
            entity_name=r.nullable_string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.entity_type)
        w.nullable_string(self.entity_name)
        w.tags(self.unknown_tags)


class EntryData(Struct):
    __slots__ = ("error_code", "error_message", "entity", "unknown_tags")

    def __init__(
        self, *,
        error_code: int = 0,
        error_message: str | None = "",
        entity: Iterable[EntityData] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.entity = list(entity)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            error_code=r.int16(),
            error_message=r.nullable_string(),
            entity=r.structs(EntityData.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            error_code=r.int16(),
            error_message=r.nullable_string(),
            entity=(yield from structs_steps(r, EntityData.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.error_code)
        w.nullable_string(self.error_message)
        w.structs(self.entity, version)
        w.tags(self.unknown_tags)


class AlterClientQuotasResponse(Message):
    __slots__ = ("throttle_time_ms", "entries", "unknown_tags")
    API_KEY = 49
    VERSIONS = range(2)
    FLEXIBLE_FROM = 1

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        entries: Iterable[EntryData] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.entries = list(entries)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32(),
            entries=r.structs(EntryData.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32(),
            entries=(yield from nested_steps(r, EntryData.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        w.structs(self.entries, version)
        w.tags(self.unknown_tags)
