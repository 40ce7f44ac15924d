"""WriteTxnMarkersResponse, versions 1 to 2, flexible from 1.

Made by tools/protocol.py from schemas/messages/WriteTxnMarkersResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class WritableTxnMarkerPartitionResult(Struct):
    __slots__ = ("partition_index", "error_code", "unknown_tags")

    def __init__(
        self, *,
        partition_index: int = 0,
        error_code: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_index=r.int32(),
            error_code=r.int16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
        w.int16(self.error_code)
        w.tags(self.unknown_tags)


class WritableTxnMarkerTopicResult(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        partitions: Iterable[WritableTxnMarkerPartitionResult] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            partitions=r.structs(WritableTxnMarkerPartitionResult.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string(),
            partitions=(yield from structs_steps(r, WritableTxnMarkerPartitionResult.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.structs(self.partitions, version)
        w.tags(self.unknown_tags)


class WritableTxnMarkerResult(Struct):
    __slots__ = ("producer_id", "topics", "unknown_tags")

    def __init__(
        self, *,
        producer_id: int = 0,
        topics: Iterable[WritableTxnMarkerTopicResult] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.producer_id = producer_id
        self.topics = list(topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            producer_id=r.int64(),
            topics=r.structs(WritableTxnMarkerTopicResult.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            producer_id=r.int64(),
            topics=(yield from nested_steps(r, WritableTxnMarkerTopicResult.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int64(self.producer_id)
        w.structs(self.topics, version)
        w.tags(self.unknown_tags)


class WriteTxnMarkersResponse(Message):
    __slots__ = ("markers", "unknown_tags")
    API_KEY = 27
    VERSIONS = range(1, 3)
    FLEXIBLE_FROM = 1

    def __init__(
        self, *,
        markers: Iterable[WritableTxnMarkerResult] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.markers = list(markers)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            markers=r.structs(WritableTxnMarkerResult.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            markers=(yield from nested_steps(r, WritableTxnMarkerResult.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.structs(self.markers, version)
        w.tags(self.unknown_tags)
