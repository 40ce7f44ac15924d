"""EndTxnMarker, version 0, never flexible.

Made by tools/protocol.py from schemas/messages/EndTxnMarker.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message
from kraft_native.base.wire import WireReader, WireWriter


class EndTxnMarker(Message):
    __slots__ = ("coordinator_epoch",)
    VERSIONS = range(1)

    def __init__(
        self, *,
        coordinator_epoch: int = 0,
    ) -> None:
        self.coordinator_epoch = coordinator_epoch

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            coordinator_epoch=r.int32(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.coordinator_epoch)
