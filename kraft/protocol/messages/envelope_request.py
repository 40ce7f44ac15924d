"""EnvelopeRequest, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/EnvelopeRequest.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class EnvelopeRequest(Message):
    __slots__ = ("request_data", "request_principal", "client_host_address", "unknown_tags")
    API_KEY = 58
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        request_data: bytes = b"",
        request_principal: bytes | None = b"",
        client_host_address: bytes = b"",
        unknown_tags: Tags = (),
    ) -> None:
        self.request_data = request_data
        self.request_principal = request_principal
        self.client_host_address = client_host_address
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            request_data=r.blob(),
            request_principal=r.nullable_blob(),
            client_host_address=r.blob(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.blob(self.request_data)
        w.nullable_blob(self.request_principal)
        w.blob(self.client_host_address)
        w.tags(self.unknown_tags)
