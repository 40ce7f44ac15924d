"""DeleteTopicsRequest, versions 1 to 6, flexible from 4.

Made by tools/protocol.py from schemas/messages/DeleteTopicsRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, structs_steps


class DeleteTopicState(Struct):
    __slots__ = ("name", "topic_id", "unknown_tags")

    def __init__(
        self, *,
        name: str | None = None,
        topic_id: UUID = ZERO_UUID,
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.nullable_string(),
            topic_id=r.uuid(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.nullable_string(self.name)
        w.uuid(self.topic_id)
        w.tags(self.unknown_tags)


class DeleteTopicsRequest(Message):
    __slots__ = ("topics", "topic_names", "timeout_ms", "unknown_tags")
    API_KEY = 20
    VERSIONS = range(1, 7)
    FLEXIBLE_FROM = 4

    def __init__(
        self, *,
        topics: Iterable[DeleteTopicState] = (),
        topic_names: Iterable[str] = (),
        timeout_ms: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.topics = list(topics)
        self.topic_names = list(topic_names)
        self.timeout_ms = timeout_ms
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topics=r.structs(DeleteTopicState.read, version) if version >= 6 else [],
            topic_names=r.array(r.string) if version <= 5 else [],
            timeout_ms=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topics=(yield from structs_steps(r, DeleteTopicState.read, version)) if version >= 6 else [],
            topic_names=(yield from array_steps(r, r.string)) if version <= 5 else [],
            timeout_ms=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version >= 6:
            w.structs(self.topics, version)
        elif self.topics != []:
            raise absent(self, "topics", version)
        if version <= 5:
            w.array(w.string, self.topic_names)
        w.int32(self.timeout_ms)
        w.tags(self.unknown_tags)
