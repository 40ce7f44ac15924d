"""ConsumerGroupRegularExpressionValue, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/ConsumerGroupRegularExpressionValue.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps


class ConsumerGroupRegularExpressionValue(Message):
    __slots__ = ("topics", "version", "timestamp", "unknown_tags")
    API_KEY = 16
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        topics: Iterable[str] = (),
        version: int = 0,
        timestamp: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.topics = list(topics)
        self.version = version
        self.timestamp = timestamp
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topics=r.array(r.string),
            version=r.int64(),
            timestamp=r.int64(),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topics=(yield from array_steps(r, r.string)),
            version=r.int64(),
            timestamp=r.int64(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.array(w.string, self.topics)
        w.int64(self.version)
        w.int64(self.timestamp)
        w.tags(self.unknown_tags)
