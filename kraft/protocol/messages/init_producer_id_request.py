"""InitProducerIdRequest, versions 0 to 6, flexible from 2.

Made by tools/protocol.py from schemas/messages/InitProducerIdRequest.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter


class InitProducerIdRequest(Message):
    __slots__ = (
        "transactional_id", "transaction_timeout_ms", "producer_id", "producer_epoch", "enable2_pc",
        "keep_prepared_txn", "unknown_tags",
    )
    API_KEY = 22
    VERSIONS = range(7)
    FLEXIBLE_FROM = 2

    def __init__(
        self, *,
        transactional_id: str | None = "",
        transaction_timeout_ms: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        enable2_pc: bool = False,
        keep_prepared_txn: bool = False,
        unknown_tags: Tags = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.enable2_pc = enable2_pc
        self.keep_prepared_txn = keep_prepared_txn
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            transactional_id=r.nullable_string(),
            transaction_timeout_ms=r.int32(),
            producer_id=r.int64() if version >= 3 else -1,
            producer_epoch=r.int16() if version >= 3 else -1,
            enable2_pc=r.boolean() if version >= 6 else False,
            keep_prepared_txn=r.boolean() if version >= 6 else False,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.nullable_string(self.transactional_id)
        w.int32(self.transaction_timeout_ms)
        if version >= 3:
            w.int64(self.producer_id)
        elif self.producer_id != -1:
            raise absent(self, "producer_id", version)
        if version >= 3:
            w.int16(self.producer_epoch)
        elif self.producer_epoch != -1:
            raise absent(self, "producer_epoch", version)
        if version >= 6:
            w.boolean(self.enable2_pc)
        elif self.enable2_pc:
            raise absent(self, "enable2_pc", version)
        if version >= 6:
            w.boolean(self.keep_prepared_txn)
        elif self.keep_prepared_txn:
            raise absent(self, "keep_prepared_txn", version)
        w.tags(self.unknown_tags)
