"""DescribeDelegationTokenRequest, versions 1 to 3, flexible from 2.

Made by tools/protocol.py from schemas/messages/DescribeDelegationTokenRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nullable_structs_steps


class DescribeDelegationTokenOwner(Struct):
    __slots__ = ("principal_type", "principal_name", "unknown_tags")

    def __init__(
        self, *,
        principal_type: str = "",
        principal_name: str = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            principal_type=r.string(),
            principal_name=r.string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.principal_type)
        w.string(self.principal_name)
        w.tags(self.unknown_tags)


class DescribeDelegationTokenRequest(Message):
    __slots__ = ("owners", "unknown_tags")
    API_KEY = 41
    VERSIONS = range(1, 4)
    FLEXIBLE_FROM = 2

    def __init__(
        self, *,
        owners: Iterable[DescribeDelegationTokenOwner] | None = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.owners = None if owners is None else list(owners)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            owners=r.nullable_structs(DescribeDelegationTokenOwner.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            owners=(yield from nullable_structs_steps(r, DescribeDelegationTokenOwner.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.nullable_structs(self.owners, version)
        w.tags(self.unknown_tags)
