"""CreateDelegationTokenRequest, versions 1 to 3, flexible from 2.

Made by tools/protocol.py from schemas/messages/CreateDelegationTokenRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class CreatableRenewers(Struct):
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


class CreateDelegationTokenRequest(Message):
    __slots__ = ("owner_principal_type", "owner_principal_name", "renewers", "max_lifetime_ms", "unknown_tags")
    API_KEY = 38
    VERSIONS = range(1, 4)
    FLEXIBLE_FROM = 2

    def __init__(
        self, *,
        owner_principal_type: str | None = "",
        owner_principal_name: str | None = "",
        renewers: Iterable[CreatableRenewers] = (),
        max_lifetime_ms: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.owner_principal_type = owner_principal_type
        self.owner_principal_name = owner_principal_name
        self.renewers = list(renewers)
        self.max_lifetime_ms = max_lifetime_ms
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            owner_principal_type=r.nullable_string() if version >= 3 else "",
            owner_principal_name=r.nullable_string() if version >= 3 else "",
            renewers=r.structs(CreatableRenewers.read, version),
            max_lifetime_ms=r.int64(),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            owner_principal_type=r.nullable_string() if version >= 3 else "",
            owner_principal_name=r.nullable_string() if version >= 3 else "",
            renewers=(yield from structs_steps(r, CreatableRenewers.read, version)),
            max_lifetime_ms=r.int64(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version >= 3:
            w.nullable_string(self.owner_principal_type)
        elif self.owner_principal_type != "":
            raise absent(self, "owner_principal_type", version)
        if version >= 3:
            w.nullable_string(self.owner_principal_name)
        elif self.owner_principal_name != "":
            raise absent(self, "owner_principal_name", version)
        w.structs(self.renewers, version)
        w.int64(self.max_lifetime_ms)
        w.tags(self.unknown_tags)
