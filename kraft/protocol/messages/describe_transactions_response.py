"""DescribeTransactionsResponse, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/DescribeTransactionsResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nested_steps


class TopicData(Struct):
    __slots__ = ("topic", "partitions", "unknown_tags")

    def __init__(
        self, *,
        topic: str = "",
        partitions: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topic = topic
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic=r.string(),
            partitions=r.array(r.int32),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topic=r.string(),
            partitions=(yield from array_steps(r, r.int32)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.topic)
        w.array(w.int32, self.partitions)
        w.tags(self.unknown_tags)


class TransactionState(Struct):
    __slots__ = (
        "error_code", "transactional_id", "transaction_state", "transaction_timeout_ms", "transaction_start_time_ms",
        "producer_id", "producer_epoch", "topics", "unknown_tags",
    )

    def __init__(
        self, *,
        error_code: int = 0,
        transactional_id: str = "",
        transaction_state: str = "",
        transaction_timeout_ms: int = 0,
        transaction_start_time_ms: int = 0,
        producer_id: int = 0,
        producer_epoch: int = 0,
        topics: Iterable[TopicData] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.error_code = error_code
        self.transactional_id = transactional_id
        self.transaction_state = transaction_state
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_start_time_ms = transaction_start_time_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.topics = list(topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            error_code=r.int16(),
            transactional_id=r.string(),
            transaction_state=r.string(),
            transaction_timeout_ms=r.int32(),
            transaction_start_time_ms=r.int64(),
            producer_id=r.int64(),
            producer_epoch=r.int16(),
            topics=r.structs(TopicData.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            error_code=r.int16(),
            transactional_id=r.string(),
            transaction_state=r.string(),
            transaction_timeout_ms=r.int32(),
            transaction_start_time_ms=r.int64(),
            producer_id=r.int64(),
            producer_epoch=r.int16(),
            topics=(yield from nested_steps(r, TopicData.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.error_code)
        w.string(self.transactional_id)
        w.string(self.transaction_state)
        w.int32(self.transaction_timeout_ms)
        w.int64(self.transaction_start_time_ms)
        w.int64(self.producer_id)
        w.int16(self.producer_epoch)
        w.structs(self.topics, version)
        w.tags(self.unknown_tags)


class DescribeTransactionsResponse(Message):
    __slots__ = ("throttle_time_ms", "transaction_states", "unknown_tags")
    API_KEY = 65
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        transaction_states: Iterable[TransactionState] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.transaction_states = list(transaction_states)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32(),
            transaction_states=r.structs(TransactionState.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32(),
            transaction_states=(yield from nested_steps(r, TransactionState.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        w.structs(self.transaction_states, version)
        w.tags(self.unknown_tags)
