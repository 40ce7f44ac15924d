"""AddPartitionsToTxnRequest, versions 0 to 5, flexible from 3.

Made by tools/protocol.py from schemas/messages/AddPartitionsToTxnRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nested_steps


class AddPartitionsToTxnTopic(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        partitions: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            partitions=r.array(r.int32),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string(),
            partitions=(yield from array_steps(r, r.int32)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.array(w.int32, self.partitions)
        w.tags(self.unknown_tags)


class AddPartitionsToTxnTransaction(Struct):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "verify_only", "topics", "unknown_tags")

    def __init__(
        self, *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        verify_only: bool = False,
        topics: Iterable[AddPartitionsToTxnTopic] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.verify_only = verify_only
        self.topics = list(topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            transactional_id=r.string(),
            producer_id=r.int64(),
            producer_epoch=r.int16(),
            verify_only=r.boolean(),
            topics=r.structs(AddPartitionsToTxnTopic.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            transactional_id=r.string(),
            producer_id=r.int64(),
            producer_epoch=r.int16(),
            verify_only=r.boolean(),
            topics=(yield from nested_steps(r, AddPartitionsToTxnTopic.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.transactional_id)
        w.int64(self.producer_id)
        w.int16(self.producer_epoch)
        w.boolean(self.verify_only)
        w.structs(self.topics, version)
        w.tags(self.unknown_tags)


class AddPartitionsToTxnRequest(Message):
    __slots__ = (
        "transactions", "v3_and_below_transactional_id", "v3_and_below_producer_id", "v3_and_below_producer_epoch",
        "v3_and_below_topics", "unknown_tags",
    )
    API_KEY = 24
    VERSIONS = range(6)
    FLEXIBLE_FROM = 3

    def __init__(
        self, *,
        transactions: Iterable[AddPartitionsToTxnTransaction] = (),
        v3_and_below_transactional_id: str = "",
        v3_and_below_producer_id: int = 0,
        v3_and_below_producer_epoch: int = 0,
        v3_and_below_topics: Iterable[AddPartitionsToTxnTopic] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.transactions = list(transactions)
        self.v3_and_below_transactional_id = v3_and_below_transactional_id
        self.v3_and_below_producer_id = v3_and_below_producer_id
        self.v3_and_below_producer_epoch = v3_and_below_producer_epoch
        self.v3_and_below_topics = list(v3_and_below_topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            transactions=r.structs(AddPartitionsToTxnTransaction.read, version) if version >= 4 else [],
            v3_and_below_transactional_id=r.string() if version <= 3 else "",
            v3_and_below_producer_id=r.int64() if version <= 3 else 0,
            v3_and_below_producer_epoch=r.int16() if version <= 3 else 0,
            v3_and_below_topics=r.structs(AddPartitionsToTxnTopic.read, version) if version <= 3 else [],
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            transactions=(
                (yield from nested_steps(r, AddPartitionsToTxnTransaction.read_steps, version))
                if version >= 4
                else []
            ),
            v3_and_below_transactional_id=r.string() if version <= 3 else "",
            v3_and_below_producer_id=r.int64() if version <= 3 else 0,
            v3_and_below_producer_epoch=r.int16() if version <= 3 else 0,
            v3_and_below_topics=(
                (yield from nested_steps(r, AddPartitionsToTxnTopic.read_steps, version))
                if version <= 3
                else []
            ),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version >= 4:
            w.structs(self.transactions, version)
        elif self.transactions != []:
            raise absent(self, "transactions", version)
        if version <= 3:
            w.string(self.v3_and_below_transactional_id)
        elif self.v3_and_below_transactional_id != "":
            raise absent(self, "v3_and_below_transactional_id", version)
        if version <= 3:
            w.int64(self.v3_and_below_producer_id)
        elif self.v3_and_below_producer_id != 0:
            raise absent(self, "v3_and_below_producer_id", version)
        if version <= 3:
            w.int16(self.v3_and_below_producer_epoch)
        elif self.v3_and_below_producer_epoch != 0:
            raise absent(self, "v3_and_below_producer_epoch", version)
        if version <= 3:
            w.structs(self.v3_and_below_topics, version)
        elif self.v3_and_below_topics != []:
            raise absent(self, "v3_and_below_topics", version)
        w.tags(self.unknown_tags)
