"""ElectLeadersRequest, versions 0 to 2, flexible from 2.

Made by tools/protocol.py from schemas/messages/ElectLeadersRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nullable_nested_steps


class TopicPartitions(Struct):
    __slots__ = ("topic", "partitions", "unknown_tags")

    def __init__(
        self, *,
        topic: str = "",
        partitions: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topic = topic
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic=r.string(),
            partitions=r.array(r.int32),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topic=r.string(),
            partitions=(yield from array_steps(r, r.int32)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.topic)
        w.array(w.int32, self.partitions)
        w.tags(self.unknown_tags)


class ElectLeadersRequest(Message):
    __slots__ = ("election_type", "topic_partitions", "timeout_ms", "unknown_tags")
    API_KEY = 43
    VERSIONS = range(3)
    FLEXIBLE_FROM = 2

    def __init__(
        self, *,
        election_type: int = 0,
        topic_partitions: Iterable[TopicPartitions] | None = (),
        timeout_ms: int = 60000,
        unknown_tags: Tags = (),
    ) -> None:
        self.election_type = election_type
        self.topic_partitions = None if topic_partitions is None else list(topic_partitions)
        self.timeout_ms = timeout_ms
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            election_type=r.int8() if version >= 1 else 0,
            topic_partitions=r.nullable_structs(TopicPartitions.read, version),
            timeout_ms=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            election_type=r.int8() if version >= 1 else 0,
            topic_partitions=(yield from nullable_nested_steps(r, TopicPartitions.read_steps, version)),
            timeout_ms=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version >= 1:
            w.int8(self.election_type)
        elif self.election_type != 0:
            raise absent(self, "election_type", version)
        w.nullable_structs(self.topic_partitions, version)
        w.int32(self.timeout_ms)
        w.tags(self.unknown_tags)
