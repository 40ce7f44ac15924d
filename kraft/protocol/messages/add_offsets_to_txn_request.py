"""AddOffsetsToTxnRequest, versions 0 to 4, flexible from 3.

Made by tools/protocol.py from schemas/messages/AddOffsetsToTxnRequest.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class AddOffsetsToTxnRequest(Message):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "group_id", "unknown_tags")
    API_KEY = 25
    VERSIONS = range(5)
    FLEXIBLE_FROM = 3

    def __init__(
        self, *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        group_id: str = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.group_id = group_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            transactional_id=r.string(),
            producer_id=r.int64(),
            producer_epoch=r.int16(),
            group_id=r.string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.transactional_id)
        w.int64(self.producer_id)
        w.int16(self.producer_epoch)
        w.string(self.group_id)
        w.tags(self.unknown_tags)
