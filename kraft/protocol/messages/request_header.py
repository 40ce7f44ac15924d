"""RequestHeader, versions 1 to 2, flexible from 2.

Made by tools/protocol.py from schemas/messages/RequestHeader.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class RequestHeader(Message):
    __slots__ = ("request_api_key", "request_api_version", "correlation_id", "client_id", "unknown_tags")
    VERSIONS = range(1, 3)
    FLEXIBLE_FROM = 2

    def __init__(
        self, *,
        request_api_key: int = 0,
        request_api_version: int = 0,
        correlation_id: int = 0,
        client_id: str | None = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.request_api_key = request_api_key
        self.request_api_version = request_api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            request_api_key=r.int16(),
            request_api_version=r.int16(),
            correlation_id=r.int32(),
            client_id=r.legacy_nullable_string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.request_api_key)
        w.int16(self.request_api_version)
        w.int32(self.correlation_id)
        w.legacy_nullable_string(self.client_id)
        w.tags(self.unknown_tags)
