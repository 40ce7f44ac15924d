"""DeleteAclsRequest, versions 1 to 3, flexible from 2.

Made by tools/protocol.py from schemas/messages/DeleteAclsRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class DeleteAclsFilter(Struct):
    __slots__ = (
        "resource_type_filter", "resource_name_filter", "pattern_type_filter", "principal_filter", "host_filter",
        "operation", "permission_type", "unknown_tags",
    )

    def __init__(
        self, *,
        resource_type_filter: int = 0,
        resource_name_filter: str | None = "",
        pattern_type_filter: int = 3,
        principal_filter: str | None = "",
        host_filter: str | None = "",
        operation: int = 0,
        permission_type: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.resource_type_filter = resource_type_filter
        self.resource_name_filter = resource_name_filter
        self.pattern_type_filter = pattern_type_filter
        self.principal_filter = principal_filter
        self.host_filter = host_filter
        self.operation = operation
        self.permission_type = permission_type
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            resource_type_filter=r.int8(),
            resource_name_filter=r.nullable_string(),
            pattern_type_filter=r.int8(),
            principal_filter=r.nullable_string(),
            host_filter=r.nullable_string(),
            operation=r.int8(),
            permission_type=r.int8(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int8(self.resource_type_filter)
        w.nullable_string(self.resource_name_filter)
        w.int8(self.pattern_type_filter)
        w.nullable_string(self.principal_filter)
        w.nullable_string(self.host_filter)
        w.int8(self.operation)
        w.int8(self.permission_type)
        w.tags(self.unknown_tags)


class DeleteAclsRequest(Message):
    __slots__ = ("filters", "unknown_tags")
    API_KEY = 31
    VERSIONS = range(1, 4)
    FLEXIBLE_FROM = 2

    def __init__(
        self, *,
        filters: Iterable[DeleteAclsFilter] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.filters = list(filters)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            filters=r.structs(DeleteAclsFilter.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            filters=(yield from structs_steps(r, DeleteAclsFilter.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.structs(self.filters, version)
        w.tags(self.unknown_tags)
