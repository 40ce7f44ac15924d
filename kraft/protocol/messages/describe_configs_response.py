"""DescribeConfigsResponse, versions 1 to 4, flexible from 4.

Made by tools/protocol.py from schemas/messages/DescribeConfigsResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class DescribeConfigsSynonym(Struct):
    __slots__ = ("name", "value", "source", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        value: str | None = "",
        source: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.value = value
        self.source = source
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            value=r.nullable_string(),
            source=r.int8(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.nullable_string(self.value)
        w.int8(self.source)
        w.tags(self.unknown_tags)


class DescribeConfigsResourceResult(Struct):
    __slots__ = (
        "name", "value", "read_only", "config_source", "is_sensitive", "synonyms", "config_type", "documentation",
        "unknown_tags",
    )

    def __init__(
        self, *,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
        synonyms: Iterable[DescribeConfigsSynonym] = (),
        config_type: int = 0,
        documentation: str | None = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive
        self.synonyms = list(synonyms)
        self.config_type = config_type
        self.documentation = documentation
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            value=r.nullable_string(),
            read_only=r.boolean(),
            config_source=r.int8(),
            is_sensitive=r.boolean(),
            synonyms=r.structs(DescribeConfigsSynonym.read, version),
            config_type=r.int8() if version >= 3 else 0,
            documentation=r.nullable_string() if version >= 3 else "",
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string(),
            value=r.nullable_string(),
            read_only=r.boolean(),
            config_source=r.int8(),
            is_sensitive=r.boolean(),
            synonyms=(yield from structs_steps(r, DescribeConfigsSynonym.read, version)),
            config_type=r.int8() if version >= 3 else 0,
            documentation=r.nullable_string() if version >= 3 else "",
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.nullable_string(self.value)
        w.boolean(self.read_only)
        w.int8(self.config_source)
        w.boolean(self.is_sensitive)
        w.structs(self.synonyms, version)
        if version >= 3:
            w.int8(self.config_type)
        if version >= 3:
            w.nullable_string(self.documentation)
        w.tags(self.unknown_tags)


class DescribeConfigsResult(Struct):
    __slots__ = ("error_code", "error_message", "resource_type", "resource_name", "configs", "unknown_tags")

    def __init__(
        self, *,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        configs: Iterable[DescribeConfigsResourceResult] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = list(configs)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            error_code=r.int16(),
            error_message=r.nullable_string(),
            resource_type=r.int8(),
            resource_name=r.string(),
            configs=r.structs(DescribeConfigsResourceResult.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            error_code=r.int16(),
            error_message=r.nullable_string(),
            resource_type=r.int8(),
            resource_name=r.string(),
            configs=(yield from nested_steps(r, DescribeConfigsResourceResult.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.error_code)
        w.nullable_string(self.error_message)
        w.int8(self.resource_type)
        w.string(self.resource_name)
        w.structs(self.configs, version)
        w.tags(self.unknown_tags)


class DescribeConfigsResponse(Message):
    __slots__ = ("throttle_time_ms", "results", "unknown_tags")
    API_KEY = 32
    VERSIONS = range(1, 5)
    FLEXIBLE_FROM = 4

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        results: Iterable[DescribeConfigsResult] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = list(results)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32(),
            results=r.structs(DescribeConfigsResult.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32(),
            results=(yield from nested_steps(r, DescribeConfigsResult.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        w.structs(self.results, version)
        w.tags(self.unknown_tags)
