"""ControlRecordTypeSchema, version 0, never flexible.

Made by tools/protocol.py from schemas/messages/ControlRecordTypeSchema.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message
from kraft_native.base.wire import WireReader, WireWriter


class ControlRecordTypeSchema(Message):
    __slots__ = ("type",)
    VERSIONS = range(1)

    def __init__(
        self, *,
        type: int = 0,
    ) -> None:
        self.type = type

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            type=r.int16(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.type)
