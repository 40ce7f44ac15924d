"""UnregisterBrokerRequest, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/UnregisterBrokerRequest.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class UnregisterBrokerRequest(Message):
    __slots__ = ("broker_id", "unknown_tags")
    API_KEY = 64
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        broker_id: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.broker_id = broker_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            broker_id=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.broker_id)
        w.tags(self.unknown_tags)
