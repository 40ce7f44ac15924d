"""DeleteShareGroupOffsetsRequest, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/DeleteShareGroupOffsetsRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class DeleteShareGroupOffsetsRequestTopic(Struct):
    __slots__ = ("topic_name", "unknown_tags")

    def __init__(
        self, *,
        topic_name: str = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.topic_name = topic_name
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic_name=r.string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.topic_name)
        w.tags(self.unknown_tags)


class DeleteShareGroupOffsetsRequest(Message):
    __slots__ = ("group_id", "topics", "unknown_tags")
    API_KEY = 92
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        group_id: str = "",
        topics: Iterable[DeleteShareGroupOffsetsRequestTopic] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.group_id = group_id
        self.topics = list(topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group_id=r.string(),
            topics=r.structs(DeleteShareGroupOffsetsRequestTopic.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            group_id=r.string(),
            topics=(yield from structs_steps(r, DeleteShareGroupOffsetsRequestTopic.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.group_id)
        w.structs(self.topics, version)
        w.tags(self.unknown_tags)
