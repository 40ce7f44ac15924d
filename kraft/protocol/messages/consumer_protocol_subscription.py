"""ConsumerProtocolSubscription, versions 0 to 3, never flexible.

Made by tools/protocol.py from schemas/messages/ConsumerProtocolSubscription.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nested_steps


class TopicPartition(Struct):
    __slots__ = ("topic", "partitions")

    def __init__(
        self, *,
        topic: str = "",
        partitions: Iterable[int] = (),
    ) -> None:
        self.topic = topic
        self.partitions = list(partitions)

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic=r.string(),
            partitions=r.array(r.int32),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topic=r.string(),
            partitions=(yield from array_steps(r, r.int32)),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.topic)
        w.array(w.int32, self.partitions)


class ConsumerProtocolSubscription(Message):
    __slots__ = ("topics", "user_data", "owned_partitions", "generation_id", "rack_id")
    VERSIONS = range(4)

    def __init__(
        self, *,
        topics: Iterable[str] = (),
        user_data: bytes | None = None,
        owned_partitions: Iterable[TopicPartition] = (),
        generation_id: int = -1,
        rack_id: str | None = None,
    ) -> None:
        self.topics = list(topics)
        self.user_data = user_data
        self.owned_partitions = list(owned_partitions)
        self.generation_id = generation_id
        self.rack_id = rack_id

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topics=r.array(r.string),
            user_data=r.nullable_blob(),
            owned_partitions=r.structs(TopicPartition.read, version) if version >= 1 else [],
            generation_id=r.int32() if version >= 2 else -1,
            rack_id=r.nullable_string() if version >= 3 else None,
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topics=(yield from array_steps(r, r.string)),
            user_data=r.nullable_blob(),
            owned_partitions=(yield from nested_steps(r, TopicPartition.read_steps, version)) if version >= 1 else [],
            generation_id=r.int32() if version >= 2 else -1,
            rack_id=r.nullable_string() if version >= 3 else None,
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.array(w.string, self.topics)
        w.nullable_blob(self.user_data)
        if version >= 1:
            w.structs(self.owned_partitions, version)
        if version >= 2:
            w.int32(self.generation_id)
        if version >= 3:
            w.nullable_string(self.rack_id)
