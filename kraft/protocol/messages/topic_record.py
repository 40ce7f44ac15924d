"""TopicRecord, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/TopicRecord.json: change that.
"""

from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class TopicRecord(Message):
    __slots__ = ("name", "topic_id", "unknown_tags")
    API_KEY = 2
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        name: str = "",
        topic_id: UUID = ZERO_UUID,
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            topic_id=r.uuid(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.uuid(self.topic_id)
        w.tags(self.unknown_tags)
