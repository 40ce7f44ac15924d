"""EnvelopeResponse, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/EnvelopeResponse.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class EnvelopeResponse(Message):
    __slots__ = ("response_data", "error_code", "unknown_tags")
    API_KEY = 58
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        response_data: bytes | None = None,
        error_code: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.response_data = response_data
        self.error_code = error_code
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            response_data=r.nullable_blob(),
            error_code=r.int16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.nullable_blob(self.response_data)
        w.int16(self.error_code)
        w.tags(self.unknown_tags)
