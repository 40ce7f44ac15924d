"""UpdateFeaturesRequest, versions 0 to 2, flexible from 0.

Made by tools/protocol.py from schemas/messages/UpdateFeaturesRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class FeatureUpdateKey(Struct):
    __slots__ = ("feature", "max_version_level", "allow_downgrade", "upgrade_type", "unknown_tags")

    def __init__(
        self, *,
        feature: str = "",
        max_version_level: int = 0,
        allow_downgrade: bool = False,
        upgrade_type: int = 1,
        unknown_tags: Tags = (),
    ) -> None:
        self.feature = feature
        self.max_version_level = max_version_level
        self.allow_downgrade = allow_downgrade
        self.upgrade_type = upgrade_type
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            feature=r.string(),
            max_version_level=r.int16(),
            allow_downgrade=r.boolean() if version <= 0 else False,
            upgrade_type=r.int8() if version >= 1 else 1,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.feature)
        w.int16(self.max_version_level)
        if version <= 0:
            w.boolean(self.allow_downgrade)
        elif self.allow_downgrade:
            raise absent(self, "allow_downgrade", version)
        if version >= 1:
            w.int8(self.upgrade_type)
        elif self.upgrade_type != 1:
            raise absent(self, "upgrade_type", version)
        w.tags(self.unknown_tags)


class UpdateFeaturesRequest(Message):
    __slots__ = ("timeout_ms", "feature_updates", "validate_only", "unknown_tags")
    API_KEY = 57
    VERSIONS = range(3)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        timeout_ms: int = 60000,
        feature_updates: Iterable[FeatureUpdateKey] = (),
        validate_only: bool = False,
        unknown_tags: Tags = (),
    ) -> None:
        self.timeout_ms = timeout_ms
        self.feature_updates = list(feature_updates)
        self.validate_only = validate_only
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            timeout_ms=r.int32(),
            feature_updates=r.structs(FeatureUpdateKey.read, version),
            validate_only=r.boolean() if version >= 1 else False,
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            timeout_ms=r.int32(),
            feature_updates=(yield from structs_steps(r, FeatureUpdateKey.read, version)),
            validate_only=r.boolean() if version >= 1 else False,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.timeout_ms)
        w.structs(self.feature_updates, version)
        if version >= 1:
            w.boolean(self.validate_only)
        elif self.validate_only:
            raise absent(self, "validate_only", version)
        w.tags(self.unknown_tags)
