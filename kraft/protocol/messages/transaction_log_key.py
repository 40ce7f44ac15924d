"""TransactionLogKey, version 0, never flexible.

Made by tools/protocol.py from schemas/messages/TransactionLogKey.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message
from kraft_native.base.wire import WireReader, WireWriter


class TransactionLogKey(Message):
    __slots__ = ("transactional_id",)
    API_KEY = 0
    VERSIONS = range(1)

    def __init__(
        self, *,
        transactional_id: str = "",
    ) -> None:
        self.transactional_id = transactional_id

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            transactional_id=r.string(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.transactional_id)
