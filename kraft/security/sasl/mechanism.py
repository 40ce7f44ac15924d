"""Server's side of a SASL mechanism, as the exchange sees it."""

from typing import Protocol


class RefusedError(Exception):
    """The client's identity is not proven. The text is for this node's log: a client learns nothing from it."""


class Mechanism(Protocol):
    """One run of a mechanism."""

    username: str
    """Name that the client claims; it is its name once the run is complete. Empty before its message."""
    is_complete: bool

    def step(self, message: bytes) -> bytes:
        """Return the answer to the client's next message. Raise `RefusedError` for one that proves nothing."""
