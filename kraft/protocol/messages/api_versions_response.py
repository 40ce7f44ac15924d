"""ApiVersionsResponse, versions 0 to 4, flexible from 3.

Made by tools/protocol.py from schemas/messages/ApiVersionsResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class ApiVersion(Struct):
    __slots__ = ("api_key", "min_version", "max_version", "unknown_tags")

    def __init__(
        self, *,
        api_key: int = 0,
        min_version: int = 0,
        max_version: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.api_key = api_key
        self.min_version = min_version
        self.max_version = max_version
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            api_key=r.int16(),
            min_version=r.int16(),
            max_version=r.int16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.api_key)
        w.int16(self.min_version)
        w.int16(self.max_version)
        w.tags(self.unknown_tags)


class SupportedFeatureKey(Struct):
    __slots__ = ("name", "min_version", "max_version", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        min_version: int = 0,
        max_version: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.min_version = min_version
        self.max_version = max_version
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            min_version=r.int16(),
            max_version=r.int16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.int16(self.min_version)
        w.int16(self.max_version)
        w.tags(self.unknown_tags)


class FinalizedFeatureKey(Struct):
    __slots__ = ("name", "max_version_level", "min_version_level", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        max_version_level: int = 0,
        min_version_level: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.max_version_level = max_version_level
        self.min_version_level = min_version_level
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            max_version_level=r.int16(),
            min_version_level=r.int16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.int16(self.max_version_level)
        w.int16(self.min_version_level)
        w.tags(self.unknown_tags)


class ApiVersionsResponse(Message):
    __slots__ = (
        "error_code", "api_keys", "throttle_time_ms", "supported_features", "finalized_features_epoch",
        "finalized_features", "zk_migration_ready", "unknown_tags",
    )
    API_KEY = 18
    VERSIONS = range(5)
    FLEXIBLE_FROM = 3

    def __init__(
        self, *,
        error_code: int = 0,
        api_keys: Iterable[ApiVersion] = (),
        throttle_time_ms: int = 0,
        supported_features: Iterable[SupportedFeatureKey] = (),
        finalized_features_epoch: int = -1,
        finalized_features: Iterable[FinalizedFeatureKey] = (),
        zk_migration_ready: bool = False,
        unknown_tags: Tags = (),
    ) -> None:
        self.error_code = error_code
        self.api_keys = list(api_keys)
        self.throttle_time_ms = throttle_time_ms
        self.supported_features = list(supported_features)
        self.finalized_features_epoch = finalized_features_epoch
        self.finalized_features = list(finalized_features)
        self.zk_migration_ready = zk_migration_ready
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            error_code=r.int16(),
            api_keys=r.structs(ApiVersion.read, version),
            throttle_time_ms=r.int32() if version >= 1 else 0,
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.supported_features = value.structs(SupportedFeatureKey.read, version)
                value.finish()
            elif tag == 1:
                struct.finalized_features_epoch = value.int64()
                value.finish()
            elif tag == 2:
                struct.finalized_features = value.structs(FinalizedFeatureKey.read, version)
                value.finish()
            elif tag == 3:
                struct.zk_migration_ready = value.boolean()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        struct = cls(
            error_code=r.int16(),
            api_keys=(yield from structs_steps(r, ApiVersion.read, version)),
            throttle_time_ms=r.int32() if version >= 1 else 0,
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.supported_features = (yield from structs_steps(value, SupportedFeatureKey.read, version))
                value.finish()
            elif tag == 1:
                struct.finalized_features_epoch = value.int64()
                value.finish()
            elif tag == 2:
                struct.finalized_features = (yield from structs_steps(value, FinalizedFeatureKey.read, version))
                value.finish()
            elif tag == 3:
                struct.zk_migration_ready = value.boolean()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.error_code)
        w.structs(self.api_keys, version)
        if version >= 1:
            w.int32(self.throttle_time_ms)
        tags = list(self.unknown_tags)
        if version >= 3 and self.supported_features != []:
            value = WireWriter(True)
            value.structs(self.supported_features, version)
            tags.append((0, value.finish()))
        if version >= 3 and self.finalized_features_epoch != -1:
            value = WireWriter(True)
            value.int64(self.finalized_features_epoch)
            tags.append((1, value.finish()))
        if version >= 3 and self.finalized_features != []:
            value = WireWriter(True)
            value.structs(self.finalized_features, version)
            tags.append((2, value.finish()))
        if version >= 3 and self.zk_migration_ready:
            value = WireWriter(True)
            value.boolean(self.zk_migration_ready)
            tags.append((3, value.finish()))
        w.tags(tags)
