"""AlterClientQuotasRequest, versions 0 to 1, flexible from 1.

Made by tools/protocol.py from schemas/messages/AlterClientQuotasRequest.json: change that.
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


class OpData(Struct):
    __slots__ = ("key", "value", "remove", "unknown_tags")

    def __init__(
        self, *,
        key: str = "",
        value: float = 0.0,
        remove: bool = False,
        unknown_tags: Tags = (),
    ) -> None:
        self.key = key
        self.value = value
        self.remove = remove
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            key=r.string(),
            value=r.float64(),
            remove=r.boolean(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.key)
        w.float64(self.value)
        w.boolean(self.remove)
        w.tags(self.unknown_tags)


class EntryData(Struct):
    __slots__ = ("entity", "ops", "unknown_tags")

    def __init__(
        self, *,
        entity: Iterable[EntityData] = (),
        ops: Iterable[OpData] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.entity = list(entity)
        self.ops = list(ops)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            entity=r.structs(EntityData.read, version),
            ops=r.structs(OpData.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            entity=(yield from structs_steps(r, EntityData.read, version)),
            ops=(yield from structs_steps(r, OpData.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.structs(self.entity, version)
        w.structs(self.ops, version)
        w.tags(self.unknown_tags)


class AlterClientQuotasRequest(Message):
    __slots__ = ("entries", "validate_only", "unknown_tags")
    API_KEY = 49
    VERSIONS = range(2)
    FLEXIBLE_FROM = 1

    def __init__(
        self, *,
        entries: Iterable[EntryData] = (),
        validate_only: bool = False,
        unknown_tags: Tags = (),
    ) -> None:
        self.entries = list(entries)
        self.validate_only = validate_only
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            entries=r.structs(EntryData.read, version),
            validate_only=r.boolean(),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            entries=(yield from nested_steps(r, EntryData.read_steps, version)),
            validate_only=r.boolean(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.structs(self.entries, version)
        w.boolean(self.validate_only)
        w.tags(self.unknown_tags)
