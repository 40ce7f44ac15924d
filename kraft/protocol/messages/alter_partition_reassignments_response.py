"""AlterPartitionReassignmentsResponse, versions 0 to 1, flexible from 0.

Made by tools/protocol.py from schemas/messages/AlterPartitionReassignmentsResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class ReassignablePartitionResponse(Struct):
    __slots__ = ("partition_index", "error_code", "error_message", "unknown_tags")

    def __init__(
        self, *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_index=r.int32(),
            error_code=r.int16(),
            error_message=r.nullable_string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
        w.int16(self.error_code)
        w.nullable_string(self.error_message)
        w.tags(self.unknown_tags)


class ReassignableTopicResponse(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        partitions: Iterable[ReassignablePartitionResponse] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            partitions=r.structs(ReassignablePartitionResponse.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string(),
            partitions=(yield from structs_steps(r, ReassignablePartitionResponse.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.structs(self.partitions, version)
        w.tags(self.unknown_tags)


class AlterPartitionReassignmentsResponse(Message):
    __slots__ = (
        "throttle_time_ms", "allow_replication_factor_change", "error_code", "error_message", "responses",
        "unknown_tags",
    )
    API_KEY = 45
    VERSIONS = range(2)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        allow_replication_factor_change: bool = True,
        error_code: int = 0,
        error_message: str | None = "",
        responses: Iterable[ReassignableTopicResponse] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.error_code = error_code
        self.error_message = error_message
        self.responses = list(responses)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32(),
            allow_replication_factor_change=r.boolean() if version >= 1 else True,
            error_code=r.int16(),
            error_message=r.nullable_string(),
            responses=r.structs(ReassignableTopicResponse.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32(),
            allow_replication_factor_change=r.boolean() if version >= 1 else True,
            error_code=r.int16(),
            error_message=r.nullable_string(),
            responses=(yield from nested_steps(r, ReassignableTopicResponse.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        if version >= 1:
            w.boolean(self.allow_replication_factor_change)
        w.int16(self.error_code)
        w.nullable_string(self.error_message)
        w.structs(self.responses, version)
        w.tags(self.unknown_tags)
