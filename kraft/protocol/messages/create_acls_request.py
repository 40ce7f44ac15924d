"""CreateAclsRequest, versions 1 to 3, flexible from 2.

Made by tools/protocol.py from schemas/messages/CreateAclsRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class AclCreation(Struct):
    __slots__ = (
        "resource_type", "resource_name", "resource_pattern_type", "principal", "host", "operation", "permission_type",
        "unknown_tags",
    )

    def __init__(
        self, *,
        resource_type: int = 0,
        resource_name: str = "",
        resource_pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.resource_pattern_type = resource_pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            resource_type=r.int8(),
            resource_name=r.string(),
            resource_pattern_type=r.int8(),
            principal=r.string(),
            host=r.string(),
            operation=r.int8(),
            permission_type=r.int8(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int8(self.resource_type)
        w.string(self.resource_name)
        w.int8(self.resource_pattern_type)
        w.string(self.principal)
        w.string(self.host)
        w.int8(self.operation)
        w.int8(self.permission_type)
        w.tags(self.unknown_tags)


class CreateAclsRequest(Message):
    __slots__ = ("creations", "unknown_tags")
    API_KEY = 30
    VERSIONS = range(1, 4)
    FLEXIBLE_FROM = 2

    def __init__(
        self, *,
        creations: Iterable[AclCreation] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.creations = list(creations)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            creations=r.structs(AclCreation.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            creations=(yield from structs_steps(r, AclCreation.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.structs(self.creations, version)
        w.tags(self.unknown_tags)
