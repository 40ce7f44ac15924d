"""LegacyOffsetCommitKey, version 0, never flexible.

Made by tools/protocol.py from schemas/messages/LegacyOffsetCommitKey.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message
from kraft_native.base.wire import WireReader, WireWriter


class LegacyOffsetCommitKey(Message):
    __slots__ = ("group", "topic", "partition")
    API_KEY = 0
    VERSIONS = range(1)

    def __init__(
        self, *,
        group: str = "",
        topic: str = "",
        partition: int = 0,
    ) -> None:
        self.group = group
        self.topic = topic
        self.partition = partition

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group=r.string(),
            topic=r.string(),
            partition=r.int32(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.group)
        w.string(self.topic)
        w.int32(self.partition)
