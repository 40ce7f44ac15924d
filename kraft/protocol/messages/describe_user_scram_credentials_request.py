"""DescribeUserScramCredentialsRequest, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/DescribeUserScramCredentialsRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nullable_structs_steps


class UserName(Struct):
    __slots__ = ("name", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.tags(self.unknown_tags)


class DescribeUserScramCredentialsRequest(Message):
    __slots__ = ("users", "unknown_tags")
    API_KEY = 50
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        users: Iterable[UserName] | None = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.users = None if users is None else list(users)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            users=r.nullable_structs(UserName.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            users=(yield from nullable_structs_steps(r, UserName.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.nullable_structs(self.users, version)
        w.tags(self.unknown_tags)
