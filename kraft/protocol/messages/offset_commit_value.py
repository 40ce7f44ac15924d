"""OffsetCommitValue, versions 0 to 4, flexible from 4.

Made by tools/protocol.py from schemas/messages/OffsetCommitValue.json: change that.
"""

from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class OffsetCommitValue(Message):
    __slots__ = (
        "offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp", "topic_id", "unknown_tags",
    )
    API_KEY = 1
    VERSIONS = range(5)
    FLEXIBLE_FROM = 4

    def __init__(
        self, *,
        offset: int = 0,
        leader_epoch: int = -1,
        metadata: str = "",
        commit_timestamp: int = 0,
        expire_timestamp: int = -1,
        topic_id: UUID = ZERO_UUID,
        unknown_tags: Tags = (),
    ) -> None:
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.metadata = metadata
        self.commit_timestamp = commit_timestamp
        self.expire_timestamp = expire_timestamp
        self.topic_id = topic_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            offset=r.int64(),
            leader_epoch=r.int32() if version >= 3 else -1,
            metadata=r.string(),
            commit_timestamp=r.int64(),
            expire_timestamp=r.int64() if version == 1 else -1,
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.topic_id = value.uuid()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int64(self.offset)
        if version >= 3:
            w.int32(self.leader_epoch)
        w.string(self.metadata)
        w.int64(self.commit_timestamp)
        if version == 1:
            w.int64(self.expire_timestamp)
        tags = list(self.unknown_tags)
        if version >= 4 and self.topic_id != ZERO_UUID:
            value = WireWriter(True)
            value.uuid(self.topic_id)
            tags.append((0, value.finish()))
        w.tags(tags)
