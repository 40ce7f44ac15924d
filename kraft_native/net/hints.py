"""Types of annotations of connections that are no class of the core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kraft_native.net.connection import Connection
    from kraft_native.net.tls import TlsTransport


class Listener(Protocol):
    """Creator of connections."""

    def admit(self, connection: Connection, /) -> str | None:
        """Return why the connection may not stay, as a word to count; None when it may."""

    def left(self, connection: Connection, /) -> None:
        """Note that the connection is closed, whether it was admitted or not."""


class TlsOwner(Protocol):
    """Creator of encrypted connections; see `kraft_native.net.tls`."""

    def arrived(self, transport: TlsTransport, /) -> None:
        """Note that a socket is connected, before anything of TLS."""

    def hello(self, transport: TlsTransport, /) -> None:
        """Schedule the handshake of a client whose first record is here. It waits for `TlsTransport.begin`."""

    def opened(self, transport: TlsTransport, /) -> object:
        """Return the protocol, after the handshake. It is connected next."""

    def failed(self, transport: TlsTransport, /) -> None:
        """Note that the connection ended before its handshake did."""
