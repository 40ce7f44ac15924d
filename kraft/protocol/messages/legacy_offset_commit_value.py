"""LegacyOffsetCommitValue, version 0, never flexible.

Made by tools/protocol.py from schemas/messages/LegacyOffsetCommitValue.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message
from kraft_native.base.wire import WireReader, WireWriter


class LegacyOffsetCommitValue(Message):
    __slots__ = ("offset", "metadata", "commit_timestamp")
    API_KEY = 0
    VERSIONS = range(1)

    def __init__(
        self, *,
        offset: int = 0,
        metadata: str = "",
        commit_timestamp: int = 0,
    ) -> None:
        self.offset = offset
        self.metadata = metadata
        self.commit_timestamp = commit_timestamp

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            offset=r.int64(),
            metadata=r.string(),
            commit_timestamp=r.int64(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int64(self.offset)
        w.string(self.metadata)
        w.int64(self.commit_timestamp)
