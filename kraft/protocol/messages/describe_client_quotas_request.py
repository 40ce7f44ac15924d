"""DescribeClientQuotasRequest, versions 0 to 1, flexible from 1.

Made by tools/protocol.py from schemas/messages/DescribeClientQuotasRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class ComponentData(Struct):
    __slots__ = ("entity_type", "match_type", "match", "unknown_tags")

    def __init__(
        self, *,
        entity_type: str = "",
        match_type: int = 0,
        match: str | None = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.entity_type = entity_type
        self.match_type = match_type
        self.match = match
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            entity_type=r.string(),
            match_type=r.int8(),
            match=r.nullable_string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.entity_type)
        w.int8(self.match_type)
        w.nullable_string(self.match)
        w.tags(self.unknown_tags)


class DescribeClientQuotasRequest(Message):
    __slots__ = ("components", "strict", "unknown_tags")
    API_KEY = 48
    VERSIONS = range(2)
    FLEXIBLE_FROM = 1

    def __init__(
        self, *,
        components: Iterable[ComponentData] = (),
        strict: bool = False,
        unknown_tags: Tags = (),
    ) -> None:
        self.components = list(components)
        self.strict = strict
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            components=r.structs(ComponentData.read, version),
            strict=r.boolean(),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            components=(yield from structs_steps(r, ComponentData.read, version)),
            strict=r.boolean(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.structs(self.components, version)
        w.boolean(self.strict)
        w.tags(self.unknown_tags)
