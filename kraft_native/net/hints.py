"""Types of annotations of connections that are no class of the core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kraft_native.net.connection import Connection


class Listener(Protocol):
    """Creator of connections."""

    def admit(self, connection: Connection, /) -> str | None:
        """Return why the connection may not stay, as a word to count; None when it may."""

    def left(self, connection: Connection, /) -> None:
        """Note that the connection is closed, whether it was admitted or not."""
