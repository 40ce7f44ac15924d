"""Replies gathered for one write: small parts joined, large ones sent from where they are."""

from typing import Protocol, final

class _Transport(Protocol):
    def get_extra_info(self, name: str, /) -> object: ...

@final
class Outgoing:
    """One write of a connection. Compiled code only."""

    total_bytes: int

def plain_descriptor(transport: _Transport) -> int:
    """Return the descriptor of a connection, for bytes that do not pass its transport. -1 without a socket, and when
    the connection is encrypted: only the transport can write then."""
