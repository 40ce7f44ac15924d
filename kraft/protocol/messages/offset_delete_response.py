"""OffsetDeleteResponse, version 0, never flexible.

Made by tools/protocol.py from schemas/messages/OffsetDeleteResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class OffsetDeleteResponsePartition(Struct):
    __slots__ = ("partition_index", "error_code")

    def __init__(
        self, *,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_index=r.int32(),
            error_code=r.int16(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
        w.int16(self.error_code)


class OffsetDeleteResponseTopic(Struct):
    __slots__ = ("name", "partitions")

    def __init__(
        self, *,
        name: str = "",
        partitions: Iterable[OffsetDeleteResponsePartition] = (),
    ) -> None:
        self.name = name
        self.partitions = list(partitions)

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            partitions=r.structs(OffsetDeleteResponsePartition.read, version),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string(),
            partitions=(yield from structs_steps(r, OffsetDeleteResponsePartition.read, version)),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.structs(self.partitions, version)


class OffsetDeleteResponse(Message):
    __slots__ = ("error_code", "throttle_time_ms", "topics")
    API_KEY = 47
    VERSIONS = range(1)

    def __init__(
        self, *,
        error_code: int = 0,
        throttle_time_ms: int = 0,
        topics: Iterable[OffsetDeleteResponseTopic] = (),
    ) -> None:
        self.error_code = error_code
        self.throttle_time_ms = throttle_time_ms
        self.topics = list(topics)

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            error_code=r.int16(),
            throttle_time_ms=r.int32(),
            topics=r.structs(OffsetDeleteResponseTopic.read, version),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            error_code=r.int16(),
            throttle_time_ms=r.int32(),
            topics=(yield from nested_steps(r, OffsetDeleteResponseTopic.read_steps, version)),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.error_code)
        w.int32(self.throttle_time_ms)
        w.structs(self.topics, version)
