"""ListConfigResourcesResponse, versions 0 to 1, flexible from 0.

Made by tools/protocol.py from schemas/messages/ListConfigResourcesResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class ConfigResource(Struct):
    __slots__ = ("resource_name", "resource_type", "unknown_tags")

    def __init__(
        self, *,
        resource_name: str = "",
        resource_type: int = 16,
        unknown_tags: Tags = (),
    ) -> None:
        self.resource_name = resource_name
        self.resource_type = resource_type
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            resource_name=r.string(),
            resource_type=r.int8() if version >= 1 else 16,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.resource_name)
        if version >= 1:
            w.int8(self.resource_type)
        w.tags(self.unknown_tags)


class ListConfigResourcesResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "config_resources", "unknown_tags")
    API_KEY = 74
    VERSIONS = range(2)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        config_resources: Iterable[ConfigResource] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.config_resources = list(config_resources)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16(),
            config_resources=r.structs(ConfigResource.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16(),
            config_resources=(yield from structs_steps(r, ConfigResource.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        w.int16(self.error_code)
        w.structs(self.config_resources, version)
        w.tags(self.unknown_tags)
