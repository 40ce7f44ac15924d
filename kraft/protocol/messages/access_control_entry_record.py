"""AccessControlEntryRecord, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/AccessControlEntryRecord.json: change that.
"""

from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class AccessControlEntryRecord(Message):
    __slots__ = (
        "id", "resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission_type",
        "unknown_tags",
    )
    API_KEY = 18
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        id: UUID = ZERO_UUID,
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 0,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.id = id
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            id=r.uuid(),
            resource_type=r.int8(),
            resource_name=r.string(),
            pattern_type=r.int8(),
            principal=r.string(),
            host=r.string(),
            operation=r.int8(),
            permission_type=r.int8(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.uuid(self.id)
        w.int8(self.resource_type)
        w.string(self.resource_name)
        w.int8(self.pattern_type)
        w.string(self.principal)
        w.string(self.host)
        w.int8(self.operation)
        w.int8(self.permission_type)
        w.tags(self.unknown_tags)
