"""DeleteAclsResponse, versions 1 to 3, flexible from 2.

Made by tools/protocol.py from schemas/messages/DeleteAclsResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class DeleteAclsMatchingAcl(Struct):
    __slots__ = (
        "error_code", "error_message", "resource_type", "resource_name", "pattern_type", "principal", "host",
        "operation", "permission_type", "unknown_tags",
    )

    def __init__(
        self, *,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
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
            error_code=r.int16(),
            error_message=r.nullable_string(),
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
        w.int16(self.error_code)
        w.nullable_string(self.error_message)
        w.int8(self.resource_type)
        w.string(self.resource_name)
        w.int8(self.pattern_type)
        w.string(self.principal)
        w.string(self.host)
        w.int8(self.operation)
        w.int8(self.permission_type)
        w.tags(self.unknown_tags)


class DeleteAclsFilterResult(Struct):
    __slots__ = ("error_code", "error_message", "matching_acls", "unknown_tags")

    def __init__(
        self, *,
        error_code: int = 0,
        error_message: str | None = "",
        matching_acls: Iterable[DeleteAclsMatchingAcl] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.matching_acls = list(matching_acls)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            error_code=r.int16(),
            error_message=r.nullable_string(),
            matching_acls=r.structs(DeleteAclsMatchingAcl.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            error_code=r.int16(),
            error_message=r.nullable_string(),
            matching_acls=(yield from structs_steps(r, DeleteAclsMatchingAcl.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.error_code)
        w.nullable_string(self.error_message)
        w.structs(self.matching_acls, version)
        w.tags(self.unknown_tags)


class DeleteAclsResponse(Message):
    __slots__ = ("throttle_time_ms", "filter_results", "unknown_tags")
    API_KEY = 31
    VERSIONS = range(1, 4)
    FLEXIBLE_FROM = 2

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        filter_results: Iterable[DeleteAclsFilterResult] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.filter_results = list(filter_results)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32(),
            filter_results=r.structs(DeleteAclsFilterResult.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32(),
            filter_results=(yield from nested_steps(r, DeleteAclsFilterResult.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        w.structs(self.filter_results, version)
        w.tags(self.unknown_tags)
