"""DefaultPrincipalData, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/DefaultPrincipalData.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class DefaultPrincipalData(Message):
    __slots__ = ("type", "name", "token_authenticated", "unknown_tags")
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        type: str = "",
        name: str = "",
        token_authenticated: bool = False,
        unknown_tags: Tags = (),
    ) -> None:
        self.type = type
        self.name = name
        self.token_authenticated = token_authenticated
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            type=r.string(),
            name=r.string(),
            token_authenticated=r.boolean(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.type)
        w.string(self.name)
        w.boolean(self.token_authenticated)
        w.tags(self.unknown_tags)
