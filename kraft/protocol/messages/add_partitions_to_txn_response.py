"""AddPartitionsToTxnResponse, versions 0 to 5, flexible from 3.

Made by tools/protocol.py from schemas/messages/AddPartitionsToTxnResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class AddPartitionsToTxnPartitionResult(Struct):
    __slots__ = ("partition_index", "partition_error_code", "unknown_tags")

    def __init__(
        self, *,
        partition_index: int = 0,
        partition_error_code: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_index = partition_index
        self.partition_error_code = partition_error_code
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_index=r.int32(),
            partition_error_code=r.int16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
        w.int16(self.partition_error_code)
        w.tags(self.unknown_tags)


class AddPartitionsToTxnTopicResult(Struct):
    __slots__ = ("name", "results_by_partition", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        results_by_partition: Iterable[AddPartitionsToTxnPartitionResult] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.results_by_partition = list(results_by_partition)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            results_by_partition=r.structs(AddPartitionsToTxnPartitionResult.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string(),
            results_by_partition=(yield from structs_steps(r, AddPartitionsToTxnPartitionResult.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.structs(self.results_by_partition, version)
        w.tags(self.unknown_tags)


class AddPartitionsToTxnResult(Struct):
    __slots__ = ("transactional_id", "topic_results", "unknown_tags")

    def __init__(
        self, *,
        transactional_id: str = "",
        topic_results: Iterable[AddPartitionsToTxnTopicResult] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.topic_results = list(topic_results)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            transactional_id=r.string(),
            topic_results=r.structs(AddPartitionsToTxnTopicResult.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            transactional_id=r.string(),
            topic_results=(yield from nested_steps(r, AddPartitionsToTxnTopicResult.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.transactional_id)
        w.structs(self.topic_results, version)
        w.tags(self.unknown_tags)


class AddPartitionsToTxnResponse(Message):
    __slots__ = (
        "throttle_time_ms", "error_code", "results_by_transaction", "results_by_topic_v3_and_below", "unknown_tags",
    )
    API_KEY = 24
    VERSIONS = range(6)
    FLEXIBLE_FROM = 3

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results_by_transaction: Iterable[AddPartitionsToTxnResult] = (),
        results_by_topic_v3_and_below: Iterable[AddPartitionsToTxnTopicResult] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results_by_transaction = list(results_by_transaction)
        self.results_by_topic_v3_and_below = list(results_by_topic_v3_and_below)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16() if version >= 4 else 0,
            results_by_transaction=r.structs(AddPartitionsToTxnResult.read, version) if version >= 4 else [],
            results_by_topic_v3_and_below=(
                r.structs(AddPartitionsToTxnTopicResult.read, version)
                if version <= 3
                else []
            ),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16() if version >= 4 else 0,
            results_by_transaction=(
                (yield from nested_steps(r, AddPartitionsToTxnResult.read_steps, version))
                if version >= 4
                else []
            ),
            results_by_topic_v3_and_below=(
                (yield from nested_steps(r, AddPartitionsToTxnTopicResult.read_steps, version))
                if version <= 3
                else []
            ),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        if version >= 4:
            w.int16(self.error_code)
        if version >= 4:
            w.structs(self.results_by_transaction, version)
        elif self.results_by_transaction != []:
            raise absent(self, "results_by_transaction", version)
        if version <= 3:
            w.structs(self.results_by_topic_v3_and_below, version)
        elif self.results_by_topic_v3_and_below != []:
            raise absent(self, "results_by_topic_v3_and_below", version)
        w.tags(self.unknown_tags)
