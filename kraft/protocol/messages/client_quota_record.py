"""ClientQuotaRecord, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/ClientQuotaRecord.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


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


class ClientQuotaRecord(Message):
    __slots__ = ("entity", "key", "value", "remove", "unknown_tags")
    API_KEY = 14
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        entity: Iterable[EntityData] = (),
        key: str = "",
        value: float = 0.0,
        remove: bool = False,
        unknown_tags: Tags = (),
    ) -> None:
        self.entity = list(entity)
        self.key = key
        self.value = value
        self.remove = remove
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            entity=r.structs(EntityData.read, version),
            key=r.string(),
            value=r.float64(),
            remove=r.boolean(),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            entity=(yield from structs_steps(r, EntityData.read, version)),
            key=r.string(),
            value=r.float64(),
            remove=r.boolean(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.structs(self.entity, version)
        w.string(self.key)
        w.float64(self.value)
        w.boolean(self.remove)
        w.tags(self.unknown_tags)
