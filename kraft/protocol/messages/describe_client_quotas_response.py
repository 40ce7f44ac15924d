"""DescribeClientQuotasResponse, versions 0 to 1, flexible from 1.

Made by tools/protocol.py from schemas/messages/DescribeClientQuotasResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nullable_nested_steps, structs_steps


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


class ValueData(Struct):
    __slots__ = ("key", "value", "unknown_tags")

    def __init__(
        self, *,
        key: str = "",
        value: float = 0.0,
        unknown_tags: Tags = (),
    ) -> None:
        self.key = key
        self.value = value
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            key=r.string(),
            value=r.float64(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.key)
        w.float64(self.value)
        w.tags(self.unknown_tags)


class EntryData(Struct):
    __slots__ = ("entity", "values", "unknown_tags")

    def __init__(
        self, *,
        entity: Iterable[EntityData] = (),
        values: Iterable[ValueData] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.entity = list(entity)
        self.values = list(values)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            entity=r.structs(EntityData.read, version),
            values=r.structs(ValueData.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            entity=(yield from structs_steps(r, EntityData.read, version)),
            values=(yield from structs_steps(r, ValueData.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.structs(self.entity, version)
        w.structs(self.values, version)
        w.tags(self.unknown_tags)


class DescribeClientQuotasResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "entries", "unknown_tags")
    API_KEY = 48
    VERSIONS = range(2)
    FLEXIBLE_FROM = 1

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        entries: Iterable[EntryData] | None = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.entries = None if entries is None else list(entries)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16(),
            error_message=r.nullable_string(),
            entries=r.nullable_structs(EntryData.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16(),
            error_message=r.nullable_string(),
            entries=(yield from nullable_nested_steps(r, EntryData.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        w.int16(self.error_code)
        w.nullable_string(self.error_message)
        w.nullable_structs(self.entries, version)
        w.tags(self.unknown_tags)
