"""ShareUpdateKey, version 0, never flexible.

Made by tools/protocol.py from schemas/messages/ShareUpdateKey.json: change that.
"""

from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message
from kraft_native.base.wire import WireReader, WireWriter


class ShareUpdateKey(Message):
    __slots__ = ("group_id", "topic_id", "partition")
    API_KEY = 1
    VERSIONS = range(1)

    def __init__(
        self, *,
        group_id: str = "",
        topic_id: UUID = ZERO_UUID,
        partition: int = 0,
    ) -> None:
        self.group_id = group_id
        self.topic_id = topic_id
        self.partition = partition

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group_id=r.string(),
            topic_id=r.uuid(),
            partition=r.int32(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.group_id)
        w.uuid(self.topic_id)
        w.int32(self.partition)
