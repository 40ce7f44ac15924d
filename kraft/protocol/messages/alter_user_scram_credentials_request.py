"""AlterUserScramCredentialsRequest, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/AlterUserScramCredentialsRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class ScramCredentialDeletion(Struct):
    __slots__ = ("name", "mechanism", "unknown_tags")

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


class ScramCredentialUpsertion(Struct):
    __slots__ = ("name", "mechanism", "iterations", "salt", "salted_password", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        mechanism: int = 0,
        iterations: int = 0,
        salt: bytes = b"",
        salted_password: bytes = b"",
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.iterations = iterations
        self.salt = salt
        self.salted_password = salted_password
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            mechanism=r.int8(),
            iterations=r.int32(),
            salt=r.blob(),
            salted_password=r.blob(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.int8(self.mechanism)
        w.int32(self.iterations)
        w.blob(self.salt)
        w.blob(self.salted_password)
        w.tags(self.unknown_tags)


class AlterUserScramCredentialsRequest(Message):
    __slots__ = ("deletions", "upsertions", "unknown_tags")
    API_KEY = 51
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        deletions: Iterable[ScramCredentialDeletion] = (),
        upsertions: Iterable[ScramCredentialUpsertion] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.deletions = list(deletions)
        self.upsertions = list(upsertions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            deletions=r.structs(ScramCredentialDeletion.read, version),
            upsertions=r.structs(ScramCredentialUpsertion.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            deletions=(yield from structs_steps(r, ScramCredentialDeletion.read, version)),
            upsertions=(yield from structs_steps(r, ScramCredentialUpsertion.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.structs(self.deletions, version)
        w.structs(self.upsertions, version)
        w.tags(self.unknown_tags)
