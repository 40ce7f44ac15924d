"""ConfigRecord, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/ConfigRecord.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class ConfigRecord(Message):
    __slots__ = ("resource_type", "resource_name", "name", "value", "unknown_tags")
    API_KEY = 4
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        resource_type: int = 0,
        resource_name: str = "",
        name: str = "",
        value: str | None = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.name = name
        self.value = value
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            resource_type=r.int8(),
            resource_name=r.string(),
            name=r.string(),
            value=r.nullable_string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int8(self.resource_type)
        w.string(self.resource_name)
        w.string(self.name)
        w.nullable_string(self.value)
        w.tags(self.unknown_tags)
