"""ElectLeadersResponse, versions 0 to 2, flexible from 2.

Made by tools/protocol.py from schemas/messages/ElectLeadersResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class PartitionResult(Struct):
    __slots__ = ("partition_id", "error_code", "error_message", "unknown_tags")

    def __init__(
        self, *,
        partition_id: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_id = partition_id
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_id=r.int32(),
            error_code=r.int16(),
            error_message=r.nullable_string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_id)
        w.int16(self.error_code)
        w.nullable_string(self.error_message)
        w.tags(self.unknown_tags)


class ReplicaElectionResult(Struct):
    __slots__ = ("topic", "partition_result", "unknown_tags")

    def __init__(
        self, *,
        topic: str = "",
        partition_result: Iterable[PartitionResult] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topic = topic
        self.partition_result = list(partition_result)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic=r.string(),
            partition_result=r.structs(PartitionResult.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topic=r.string(),
            partition_result=(yield from structs_steps(r, PartitionResult.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.topic)
        w.structs(self.partition_result, version)
        w.tags(self.unknown_tags)


class ElectLeadersResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "replica_election_results", "unknown_tags")
    API_KEY = 43
    VERSIONS = range(3)
    FLEXIBLE_FROM = 2

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        replica_election_results: Iterable[ReplicaElectionResult] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.replica_election_results = list(replica_election_results)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16() if version >= 1 else 0,
            replica_election_results=r.structs(ReplicaElectionResult.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16() if version >= 1 else 0,
            replica_election_results=(yield from nested_steps(r, ReplicaElectionResult.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        if version >= 1:
            w.int16(self.error_code)
        w.structs(self.replica_election_results, version)
        w.tags(self.unknown_tags)
