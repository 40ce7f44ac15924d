"""Identity of the other side of a connection."""

from typing import Final, NamedTuple, Self

USER: Final = "User"


class Principal(NamedTuple):
    """A kind, which is `User` unless a principal builder says otherwise, and a name. Its text is `User:alice`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @classmethod
    def user(cls, name: str) -> Self:
        """Return the user of that name."""
        return cls(USER, name)


class TokenUser(Principal):
    """User that has shown a delegation token: equal to the user, but it may not create tokens (KIP-48)."""

    __slots__ = ()


ANONYMOUS: Final = Principal.user("ANONYMOUS")
"""A client that was not authenticated."""


class Client(NamedTuple):
    """Client that a request comes from, wherever it is served. `host` is an address without a port."""

    client_id: str = ""
    principal: Principal = ANONYMOUS
    host: str = ""
