"""SaslHandshakeResponse, versions 0 to 1, never flexible.

Made by tools/protocol.py from schemas/messages/SaslHandshakeResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps


class SaslHandshakeResponse(Message):
    __slots__ = ("error_code", "mechanisms")
    API_KEY = 17
    VERSIONS = range(2)

    def __init__(
        self, *,
        error_code: int = 0,
        mechanisms: Iterable[str] = (),
    ) -> None:
        self.error_code = error_code
        self.mechanisms = list(mechanisms)

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            error_code=r.int16(),
            mechanisms=r.array(r.string),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            error_code=r.int16(),
            mechanisms=(yield from array_steps(r, r.string)),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.error_code)
        w.array(w.string, self.mechanisms)
