"""SaslAuthenticateResponse, versions 0 to 2, flexible from 2.

Made by tools/protocol.py from schemas/messages/SaslAuthenticateResponse.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class SaslAuthenticateResponse(Message):
    __slots__ = ("error_code", "error_message", "auth_bytes", "session_lifetime_ms", "unknown_tags")
    API_KEY = 36
    VERSIONS = range(3)
    FLEXIBLE_FROM = 2

    def __init__(
        self, *,
        error_code: int = 0,
        error_message: str | None = "",
        auth_bytes: bytes = b"",
        session_lifetime_ms: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.auth_bytes = auth_bytes
        self.session_lifetime_ms = session_lifetime_ms
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            error_code=r.int16(),
            error_message=r.nullable_string(),
            auth_bytes=r.blob(),
            session_lifetime_ms=r.int64() if version >= 1 else 0,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.error_code)
        w.nullable_string(self.error_message)
        w.blob(self.auth_bytes)
        if version >= 1:
            w.int64(self.session_lifetime_ms)
        w.tags(self.unknown_tags)
