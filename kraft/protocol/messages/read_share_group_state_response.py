"""ReadShareGroupStateResponse, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/ReadShareGroupStateResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class StateBatch(Struct):
    __slots__ = ("first_offset", "last_offset", "delivery_state", "delivery_count", "unknown_tags")

    def __init__(
        self, *,
        first_offset: int = 0,
        last_offset: int = 0,
        delivery_state: int = 0,
        delivery_count: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_state = delivery_state
        self.delivery_count = delivery_count
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            first_offset=r.int64(),
            last_offset=r.int64(),
            delivery_state=r.int8(),
            delivery_count=r.int16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int64(self.first_offset)
        w.int64(self.last_offset)
        w.int8(self.delivery_state)
        w.int16(self.delivery_count)
        w.tags(self.unknown_tags)


class PartitionResult(Struct):
    __slots__ = (
        "partition", "error_code", "error_message", "state_epoch", "start_offset", "state_batches", "unknown_tags",
    )

    def __init__(
        self, *,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        state_epoch: int = 0,
        start_offset: int = 0,
        state_batches: Iterable[StateBatch] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message
        self.state_epoch = state_epoch
        self.start_offset = start_offset
        self.state_batches = list(state_batches)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition=r.int32(),
            error_code=r.int16(),
            error_message=r.nullable_string(),
            state_epoch=r.int32(),
            start_offset=r.int64(),
            state_batches=r.structs(StateBatch.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            partition=r.int32(),
            error_code=r.int16(),
            error_message=r.nullable_string(),
            state_epoch=r.int32(),
            start_offset=r.int64(),
            state_batches=(yield from structs_steps(r, StateBatch.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition)
        w.int16(self.error_code)
        w.nullable_string(self.error_message)
        w.int32(self.state_epoch)
        w.int64(self.start_offset)
        w.structs(self.state_batches, version)
        w.tags(self.unknown_tags)


class ReadStateResult(Struct):
    __slots__ = ("topic_id", "partitions", "unknown_tags")

    def __init__(
        self, *,
        topic_id: UUID = ZERO_UUID,
        partitions: Iterable[PartitionResult] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topic_id = topic_id
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic_id=r.uuid(),
            partitions=r.structs(PartitionResult.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topic_id=r.uuid(),
            partitions=(yield from nested_steps(r, PartitionResult.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.uuid(self.topic_id)
        w.structs(self.partitions, version)
        w.tags(self.unknown_tags)


class ReadShareGroupStateResponse(Message):
    __slots__ = ("results", "unknown_tags")
    API_KEY = 84
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        results: Iterable[ReadStateResult] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.results = list(results)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            results=r.structs(ReadStateResult.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            results=(yield from nested_steps(r, ReadStateResult.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.structs(self.results, version)
        w.tags(self.unknown_tags)
