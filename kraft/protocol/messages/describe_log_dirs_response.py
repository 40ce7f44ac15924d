"""DescribeLogDirsResponse, versions 1 to 5, flexible from 2.

Made by tools/protocol.py from schemas/messages/DescribeLogDirsResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class DescribeLogDirsPartition(Struct):
    __slots__ = ("partition_index", "partition_size", "offset_lag", "is_future_key", "unknown_tags")

    def __init__(
        self, *,
        partition_index: int = 0,
        partition_size: int = 0,
        offset_lag: int = 0,
        is_future_key: bool = False,
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_index = partition_index
        self.partition_size = partition_size
        self.offset_lag = offset_lag
        self.is_future_key = is_future_key
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_index=r.int32(),
            partition_size=r.int64(),
            offset_lag=r.int64(),
            is_future_key=r.boolean(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
        w.int64(self.partition_size)
        w.int64(self.offset_lag)
        w.boolean(self.is_future_key)
        w.tags(self.unknown_tags)


class DescribeLogDirsTopic(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        partitions: Iterable[DescribeLogDirsPartition] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            partitions=r.structs(DescribeLogDirsPartition.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string(),
            partitions=(yield from structs_steps(r, DescribeLogDirsPartition.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.structs(self.partitions, version)
        w.tags(self.unknown_tags)


class DescribeLogDirsResult(Struct):
    __slots__ = ("error_code", "log_dir", "topics", "total_bytes", "usable_bytes", "is_cordoned", "unknown_tags")

    def __init__(
        self, *,
        error_code: int = 0,
        log_dir: str = "",
        topics: Iterable[DescribeLogDirsTopic] = (),
        total_bytes: int = -1,
        usable_bytes: int = -1,
        is_cordoned: bool = False,
        unknown_tags: Tags = (),
    ) -> None:
        self.error_code = error_code
        self.log_dir = log_dir
        self.topics = list(topics)
        self.total_bytes = total_bytes
        self.usable_bytes = usable_bytes
        self.is_cordoned = is_cordoned
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            error_code=r.int16(),
            log_dir=r.string(),
            topics=r.structs(DescribeLogDirsTopic.read, version),
            total_bytes=r.int64() if version >= 4 else -1,
            usable_bytes=r.int64() if version >= 4 else -1,
            is_cordoned=r.boolean() if version >= 5 else False,
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            error_code=r.int16(),
            log_dir=r.string(),
            topics=(yield from nested_steps(r, DescribeLogDirsTopic.read_steps, version)),
            total_bytes=r.int64() if version >= 4 else -1,
            usable_bytes=r.int64() if version >= 4 else -1,
            is_cordoned=r.boolean() if version >= 5 else False,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.error_code)
        w.string(self.log_dir)
        w.structs(self.topics, version)
        if version >= 4:
            w.int64(self.total_bytes)
        if version >= 4:
            w.int64(self.usable_bytes)
        if version >= 5:
            w.boolean(self.is_cordoned)
        w.tags(self.unknown_tags)


class DescribeLogDirsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "results", "unknown_tags")
    API_KEY = 35
    VERSIONS = range(1, 6)
    FLEXIBLE_FROM = 2

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results: Iterable[DescribeLogDirsResult] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results = list(results)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16() if version >= 3 else 0,
            results=r.structs(DescribeLogDirsResult.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16() if version >= 3 else 0,
            results=(yield from nested_steps(r, DescribeLogDirsResult.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        if version >= 3:
            w.int16(self.error_code)
        w.structs(self.results, version)
        w.tags(self.unknown_tags)
