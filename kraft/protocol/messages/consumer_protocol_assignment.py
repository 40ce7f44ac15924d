"""ConsumerProtocolAssignment, versions 0 to 3, never flexible.

Made by tools/protocol.py from schemas/messages/ConsumerProtocolAssignment.json: change that.
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


class ConsumerProtocolAssignment(Message):
    __slots__ = ("assigned_partitions", "user_data")
    VERSIONS = range(4)

    def __init__(
        self, *,
        assigned_partitions: Iterable[TopicPartition] = (),
        user_data: bytes | None = None,
    ) -> None:
        self.assigned_partitions = list(assigned_partitions)
        self.user_data = user_data

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            assigned_partitions=r.structs(TopicPartition.read, version),
            user_data=r.nullable_blob(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            assigned_partitions=(yield from nested_steps(r, TopicPartition.read_steps, version)),
            user_data=r.nullable_blob(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.structs(self.assigned_partitions, version)
        w.nullable_blob(self.user_data)
