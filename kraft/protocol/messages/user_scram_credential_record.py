"""UserScramCredentialRecord, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/UserScramCredentialRecord.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class UserScramCredentialRecord(Message):
    __slots__ = ("name", "mechanism", "salt", "stored_key", "server_key", "iterations", "unknown_tags")
    API_KEY = 11
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        name: str = "",
        mechanism: int = 0,
        salt: bytes = b"",
        stored_key: bytes = b"",
        server_key: bytes = b"",
        iterations: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.salt = salt
        self.stored_key = stored_key
        self.server_key = server_key
        self.iterations = iterations
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            mechanism=r.int8(),
            salt=r.blob(),
            stored_key=r.blob(),
            server_key=r.blob(),
            iterations=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.int8(self.mechanism)
        w.blob(self.salt)
        w.blob(self.stored_key)
        w.blob(self.server_key)
        w.int32(self.iterations)
        w.tags(self.unknown_tags)
