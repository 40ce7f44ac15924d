"""UnregisterBrokerRecord, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/UnregisterBrokerRecord.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class UnregisterBrokerRecord(Message):
    __slots__ = ("broker_id", "broker_epoch", "unknown_tags")
    API_KEY = 1
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        broker_id: int = 0,
        broker_epoch: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            broker_id=r.int32(),
            broker_epoch=r.int64(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.broker_id)
        w.int64(self.broker_epoch)
        w.tags(self.unknown_tags)
