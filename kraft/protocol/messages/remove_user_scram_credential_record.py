"""RemoveUserScramCredentialRecord, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/RemoveUserScramCredentialRecord.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class RemoveUserScramCredentialRecord(Message):
    __slots__ = ("name", "mechanism", "unknown_tags")
    API_KEY = 22
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        name: str = "",
        mechanism: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            mechanism=r.int8(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.int8(self.mechanism)
        w.tags(self.unknown_tags)
