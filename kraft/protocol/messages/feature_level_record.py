"""FeatureLevelRecord, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/FeatureLevelRecord.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class FeatureLevelRecord(Message):
    __slots__ = ("name", "feature_level", "unknown_tags")
    API_KEY = 12
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        name: str = "",
        feature_level: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.feature_level = feature_level
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            feature_level=r.int16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.int16(self.feature_level)
        w.tags(self.unknown_tags)
