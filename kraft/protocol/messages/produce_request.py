"""ProduceRequest, versions 3 to 13, flexible from 9.

Made by tools/protocol.py from schemas/messages/ProduceRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class PartitionProduceData(Struct):
    __slots__ = ("index", "records", "unknown_tags")

    def __init__(
        self, *,
        index: int = 0,
        records: bytes | None = b"",
        unknown_tags: Tags = (),
    ) -> None:
        self.index = index
        self.records = records
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            index=r.int32(),
            records=r.nullable_blob(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.index)
        w.nullable_blob(self.records)
        w.tags(self.unknown_tags)


class TopicProduceData(Struct):
    __slots__ = ("name", "topic_id", "partition_data", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        topic_id: UUID = ZERO_UUID,
        partition_data: Iterable[PartitionProduceData] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_data = list(partition_data)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string() if version <= 12 else "",
            topic_id=r.uuid() if version >= 13 else ZERO_UUID,
            partition_data=r.structs(PartitionProduceData.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string() if version <= 12 else "",
            topic_id=r.uuid() if version >= 13 else ZERO_UUID,
            partition_data=(yield from structs_steps(r, PartitionProduceData.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version <= 12:
            w.string(self.name)
        if version >= 13:
            w.uuid(self.topic_id)
        w.structs(self.partition_data, version)
        w.tags(self.unknown_tags)


class ProduceRequest(Message):
    __slots__ = ("transactional_id", "acks", "timeout_ms", "topic_data", "unknown_tags")
    API_KEY = 0
    VERSIONS = range(3, 14)
    FLEXIBLE_FROM = 9

    def __init__(
        self, *,
        transactional_id: str | None = None,
        acks: int = 0,
        timeout_ms: int = 0,
        topic_data: Iterable[TopicProduceData] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data = list(topic_data)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            transactional_id=r.nullable_string(),
            acks=r.int16(),
            timeout_ms=r.int32(),
            topic_data=r.structs(TopicProduceData.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            transactional_id=r.nullable_string(),
            acks=r.int16(),
            timeout_ms=r.int32(),
            topic_data=(yield from nested_steps(r, TopicProduceData.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.nullable_string(self.transactional_id)
        w.int16(self.acks)
        w.int32(self.timeout_ms)
        w.structs(self.topic_data, version)
        w.tags(self.unknown_tags)
