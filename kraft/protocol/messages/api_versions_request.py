"""ApiVersionsRequest, versions 0 to 4, flexible from 3.

Made by tools/protocol.py from schemas/messages/ApiVersionsRequest.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class ApiVersionsRequest(Message):
    __slots__ = ("client_software_name", "client_software_version", "unknown_tags")
    API_KEY = 18
    VERSIONS = range(5)
    FLEXIBLE_FROM = 3

    def __init__(
        self, *,
        client_software_name: str = "",
        client_software_version: str = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.client_software_name = client_software_name
        self.client_software_version = client_software_version
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            client_software_name=r.string() if version >= 3 else "",
            client_software_version=r.string() if version >= 3 else "",
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version >= 3:
            w.string(self.client_software_name)
        if version >= 3:
            w.string(self.client_software_version)
        w.tags(self.unknown_tags)
