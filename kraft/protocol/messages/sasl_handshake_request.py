"""SaslHandshakeRequest, versions 0 to 1, never flexible.

Made by tools/protocol.py from schemas/messages/SaslHandshakeRequest.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message
from kraft_native.base.wire import WireReader, WireWriter


class SaslHandshakeRequest(Message):
    __slots__ = ("mechanism",)
    API_KEY = 17
    VERSIONS = range(2)

    def __init__(
        self, *,
        mechanism: str = "",
    ) -> None:
        self.mechanism = mechanism

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            mechanism=r.string(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.mechanism)
