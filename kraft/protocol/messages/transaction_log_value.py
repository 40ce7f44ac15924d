"""TransactionLogValue, versions 0 to 1, flexible from 1.

Made by tools/protocol.py from schemas/messages/TransactionLogValue.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nullable_nested_steps


class PartitionsSchema(Struct):
    __slots__ = ("topic", "partition_ids", "unknown_tags")

    def __init__(
        self, *,
        topic: str = "",
        partition_ids: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topic = topic
        self.partition_ids = list(partition_ids)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic=r.string(),
            partition_ids=r.array(r.int32),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topic=r.string(),
            partition_ids=(yield from array_steps(r, r.int32)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.topic)
        w.array(w.int32, self.partition_ids)
        w.tags(self.unknown_tags)


class TransactionLogValue(Message):
    __slots__ = (
        "producer_id", "previous_producer_id", "next_producer_id", "producer_epoch", "next_producer_epoch",
        "transaction_timeout_ms", "transaction_status", "transaction_partitions",
        "transaction_last_update_timestamp_ms", "transaction_start_timestamp_ms", "client_transaction_version",
        "unknown_tags",
    )
    API_KEY = 0
    VERSIONS = range(2)
    FLEXIBLE_FROM = 1

    def __init__(
        self, *,
        producer_id: int = 0,
        previous_producer_id: int = -1,
        next_producer_id: int = -1,
        producer_epoch: int = 0,
        next_producer_epoch: int = -1,
        transaction_timeout_ms: int = 0,
        transaction_status: int = 0,
        transaction_partitions: Iterable[PartitionsSchema] | None = (),
        transaction_last_update_timestamp_ms: int = 0,
        transaction_start_timestamp_ms: int = 0,
        client_transaction_version: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.producer_id = producer_id
        self.previous_producer_id = previous_producer_id
        self.next_producer_id = next_producer_id
        self.producer_epoch = producer_epoch
        self.next_producer_epoch = next_producer_epoch
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_status = transaction_status
        self.transaction_partitions = None if transaction_partitions is None else list(transaction_partitions)
        self.transaction_last_update_timestamp_ms = transaction_last_update_timestamp_ms
        self.transaction_start_timestamp_ms = transaction_start_timestamp_ms
        self.client_transaction_version = client_transaction_version
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            producer_id=r.int64(),
            producer_epoch=r.int16(),
            transaction_timeout_ms=r.int32(),
            transaction_status=r.int8(),
            transaction_partitions=r.nullable_structs(PartitionsSchema.read, version),
            transaction_last_update_timestamp_ms=r.int64(),
            transaction_start_timestamp_ms=r.int64(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.previous_producer_id = value.int64()
                value.finish()
            elif tag == 1:
                struct.next_producer_id = value.int64()
                value.finish()
            elif tag == 2:
                struct.client_transaction_version = value.int16()
                value.finish()
            elif tag == 3:
                struct.next_producer_epoch = value.int16()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        struct = cls(
            producer_id=r.int64(),
            producer_epoch=r.int16(),
            transaction_timeout_ms=r.int32(),
            transaction_status=r.int8(),
            transaction_partitions=(yield from nullable_nested_steps(r, PartitionsSchema.read_steps, version)),
            transaction_last_update_timestamp_ms=r.int64(),
            transaction_start_timestamp_ms=r.int64(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.previous_producer_id = value.int64()
                value.finish()
            elif tag == 1:
                struct.next_producer_id = value.int64()
                value.finish()
            elif tag == 2:
                struct.client_transaction_version = value.int16()
                value.finish()
            elif tag == 3:
                struct.next_producer_epoch = value.int16()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int64(self.producer_id)
        w.int16(self.producer_epoch)
        w.int32(self.transaction_timeout_ms)
        w.int8(self.transaction_status)
        w.nullable_structs(self.transaction_partitions, version)
        w.int64(self.transaction_last_update_timestamp_ms)
        w.int64(self.transaction_start_timestamp_ms)
        tags = list(self.unknown_tags)
        if self.previous_producer_id != -1:
            if version < 1:
                raise absent(self, "previous_producer_id", version)
            value = WireWriter(True)
            value.int64(self.previous_producer_id)
            tags.append((0, value.finish()))
        if self.next_producer_id != -1:
            if version < 1:
                raise absent(self, "next_producer_id", version)
            value = WireWriter(True)
            value.int64(self.next_producer_id)
            tags.append((1, value.finish()))
        if self.client_transaction_version != 0:
            if version < 1:
                raise absent(self, "client_transaction_version", version)
            value = WireWriter(True)
            value.int16(self.client_transaction_version)
            tags.append((2, value.finish()))
        if self.next_producer_epoch != -1:
            if version < 1:
                raise absent(self, "next_producer_epoch", version)
            value = WireWriter(True)
            value.int16(self.next_producer_epoch)
            tags.append((3, value.finish()))
        w.tags(tags)
