"""DescribeConfigsRequest, versions 1 to 4, flexible from 4.

Made by tools/protocol.py from schemas/messages/DescribeConfigsRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, nullable_array_steps


class DescribeConfigsResource(Struct):
    __slots__ = ("resource_type", "resource_name", "configuration_keys", "unknown_tags")

    def __init__(
        self, *,
        resource_type: int = 0,
        resource_name: str = "",
        configuration_keys: Iterable[str] | None = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configuration_keys = None if configuration_keys is None else list(configuration_keys)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            resource_type=r.int8(),
            resource_name=r.string(),
            configuration_keys=r.nullable_array(r.string),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            resource_type=r.int8(),
            resource_name=r.string(),
            configuration_keys=(yield from nullable_array_steps(r, r.string)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int8(self.resource_type)
        w.string(self.resource_name)
        w.nullable_array(w.string, self.configuration_keys)
        w.tags(self.unknown_tags)


class DescribeConfigsRequest(Message):
    __slots__ = ("resources", "include_synonyms", "include_documentation", "unknown_tags")
    API_KEY = 32
    VERSIONS = range(1, 5)
    FLEXIBLE_FROM = 4

    def __init__(
        self, *,
        resources: Iterable[DescribeConfigsResource] = (),
        include_synonyms: bool = False,
        include_documentation: bool = False,
        unknown_tags: Tags = (),
    ) -> None:
        self.resources = list(resources)
        self.include_synonyms = include_synonyms
        self.include_documentation = include_documentation
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            resources=r.structs(DescribeConfigsResource.read, version),
            include_synonyms=r.boolean(),
            include_documentation=r.boolean() if version >= 3 else False,
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            resources=(yield from nested_steps(r, DescribeConfigsResource.read_steps, version)),
            include_synonyms=r.boolean(),
            include_documentation=r.boolean() if version >= 3 else False,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.structs(self.resources, version)
        w.boolean(self.include_synonyms)
        if version >= 3:
            w.boolean(self.include_documentation)
        elif self.include_documentation:
            raise absent(self, "include_documentation", version)
        w.tags(self.unknown_tags)
