"""AlterConfigsRequest, versions 0 to 2, flexible from 2.

Made by tools/protocol.py from schemas/messages/AlterConfigsRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class AlterableConfig(Struct):
    __slots__ = ("name", "value", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        value: str | None = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.value = value
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            value=r.nullable_string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.nullable_string(self.value)
        w.tags(self.unknown_tags)


class AlterConfigsResource(Struct):
    __slots__ = ("resource_type", "resource_name", "configs", "unknown_tags")

    def __init__(
        self, *,
        resource_type: int = 0,
        resource_name: str = "",
        configs: Iterable[AlterableConfig] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = list(configs)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            resource_type=r.int8(),
            resource_name=r.string(),
            configs=r.structs(AlterableConfig.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            resource_type=r.int8(),
            resource_name=r.string(),
            configs=(yield from structs_steps(r, AlterableConfig.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int8(self.resource_type)
        w.string(self.resource_name)
        w.structs(self.configs, version)
        w.tags(self.unknown_tags)


class AlterConfigsRequest(Message):
    __slots__ = ("resources", "validate_only", "unknown_tags")
    API_KEY = 33
    VERSIONS = range(3)
    FLEXIBLE_FROM = 2

    def __init__(
        self, *,
        resources: Iterable[AlterConfigsResource] = (),
        validate_only: bool = False,
        unknown_tags: Tags = (),
    ) -> None:
        self.resources = list(resources)
        self.validate_only = validate_only
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            resources=r.structs(AlterConfigsResource.read, version),
            validate_only=r.boolean(),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            resources=(yield from nested_steps(r, AlterConfigsResource.read_steps, version)),
            validate_only=r.boolean(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.structs(self.resources, version)
        w.boolean(self.validate_only)
        w.tags(self.unknown_tags)
