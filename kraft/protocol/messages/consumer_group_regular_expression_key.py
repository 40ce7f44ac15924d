"""ConsumerGroupRegularExpressionKey, version 0, never flexible.

Made by tools/protocol.py from schemas/messages/ConsumerGroupRegularExpressionKey.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message
from kraft_native.base.wire import WireReader, WireWriter


class ConsumerGroupRegularExpressionKey(Message):
    __slots__ = ("group_id", "regular_expression")
    API_KEY = 16
    VERSIONS = range(1)

    def __init__(
        self, *,
        group_id: str = "",
        regular_expression: str = "",
    ) -> None:
        self.group_id = group_id
        self.regular_expression = regular_expression

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group_id=r.string(),
            regular_expression=r.string(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.group_id)
        w.string(self.regular_expression)
