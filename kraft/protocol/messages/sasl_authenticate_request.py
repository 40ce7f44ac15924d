"""SaslAuthenticateRequest, versions 0 to 2, flexible from 2.

Made by tools/protocol.py from schemas/messages/SaslAuthenticateRequest.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class SaslAuthenticateRequest(Message):
    __slots__ = ("auth_bytes", "unknown_tags")
    API_KEY = 36
    VERSIONS = range(3)
    FLEXIBLE_FROM = 2

    def __init__(
        self, *,
        auth_bytes: bytes = b"",
        unknown_tags: Tags = (),
    ) -> None:
        self.auth_bytes = auth_bytes
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            auth_bytes=r.blob(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.blob(self.auth_bytes)
        w.tags(self.unknown_tags)
