"""InitProducerIdResponse, versions 0 to 6, flexible from 2.

Made by tools/protocol.py from schemas/messages/InitProducerIdResponse.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter


class InitProducerIdResponse(Message):
    __slots__ = (
        "throttle_time_ms", "error_code", "producer_id", "producer_epoch", "ongoing_txn_producer_id",
        "ongoing_txn_producer_epoch", "unknown_tags",
    )
    API_KEY = 22
    VERSIONS = range(7)
    FLEXIBLE_FROM = 2

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = 0,
        ongoing_txn_producer_id: int = -1,
        ongoing_txn_producer_epoch: int = -1,
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.ongoing_txn_producer_id = ongoing_txn_producer_id
        self.ongoing_txn_producer_epoch = ongoing_txn_producer_epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16(),
            producer_id=r.int64(),
            producer_epoch=r.int16(),
            ongoing_txn_producer_id=r.int64() if version >= 6 else -1,
            ongoing_txn_producer_epoch=r.int16() if version >= 6 else -1,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        w.int16(self.error_code)
        w.int64(self.producer_id)
        w.int16(self.producer_epoch)
        if version >= 6:
            w.int64(self.ongoing_txn_producer_id)
        elif self.ongoing_txn_producer_id != -1:
            raise absent(self, "ongoing_txn_producer_id", version)
        if version >= 6:
            w.int16(self.ongoing_txn_producer_epoch)
        elif self.ongoing_txn_producer_epoch != -1:
            raise absent(self, "ongoing_txn_producer_epoch", version)
        w.tags(self.unknown_tags)
