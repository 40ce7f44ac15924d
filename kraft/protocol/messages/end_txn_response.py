"""EndTxnResponse, versions 0 to 5, flexible from 3.

Made by tools/protocol.py from schemas/messages/EndTxnResponse.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class EndTxnResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "producer_id", "producer_epoch", "unknown_tags")
    API_KEY = 26
    VERSIONS = range(6)
    FLEXIBLE_FROM = 3

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16(),
            producer_id=r.int64() if version >= 5 else -1,
            producer_epoch=r.int16() if version >= 5 else -1,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        w.int16(self.error_code)
        if version >= 5:
            w.int64(self.producer_id)
        if version >= 5:
            w.int16(self.producer_epoch)
        w.tags(self.unknown_tags)
