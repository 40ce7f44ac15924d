"""WriteTxnMarkersRequest, versions 1 to 2, flexible from 1.

Made by tools/protocol.py from schemas/messages/WriteTxnMarkersRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nested_steps


class WritableTxnMarkerTopic(Struct):
    __slots__ = ("name", "partition_indexes", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        partition_indexes: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.partition_indexes = list(partition_indexes)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            partition_indexes=r.array(r.int32),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string(),
            partition_indexes=(yield from array_steps(r, r.int32)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.array(w.int32, self.partition_indexes)
        w.tags(self.unknown_tags)


class WritableTxnMarker(Struct):
    __slots__ = (
        "producer_id", "producer_epoch", "transaction_result", "topics", "coordinator_epoch", "transaction_version",
        "unknown_tags",
    )

    def __init__(
        self, *,
        producer_id: int = 0,
        producer_epoch: int = 0,
        transaction_result: bool = False,
        topics: Iterable[WritableTxnMarkerTopic] = (),
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.transaction_result = transaction_result
        self.topics = list(topics)
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            producer_id=r.int64(),
            producer_epoch=r.int16(),
            transaction_result=r.boolean(),
            topics=r.structs(WritableTxnMarkerTopic.read, version),
            coordinator_epoch=r.int32(),
            transaction_version=r.int8() if version >= 2 else 0,
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            producer_id=r.int64(),
            producer_epoch=r.int16(),
            transaction_result=r.boolean(),
            topics=(yield from nested_steps(r, WritableTxnMarkerTopic.read_steps, version)),
            coordinator_epoch=r.int32(),
            transaction_version=r.int8() if version >= 2 else 0,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int64(self.producer_id)
        w.int16(self.producer_epoch)
        w.boolean(self.transaction_result)
        w.structs(self.topics, version)
        w.int32(self.coordinator_epoch)
        if version >= 2:
            w.int8(self.transaction_version)
        w.tags(self.unknown_tags)


class WriteTxnMarkersRequest(Message):
    __slots__ = ("markers", "unknown_tags")
    API_KEY = 27
    VERSIONS = range(1, 3)
    FLEXIBLE_FROM = 1

    def __init__(
        self, *,
        markers: Iterable[WritableTxnMarker] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.markers = list(markers)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            markers=r.structs(WritableTxnMarker.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            markers=(yield from nested_steps(r, WritableTxnMarker.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.structs(self.markers, version)
        w.tags(self.unknown_tags)
