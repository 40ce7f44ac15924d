"""Server's side of a SASL mechanism, as the exchange sees it."""

from typing import Protocol


class RefusedError(Exception):
    """The client's identity is not proven. The text is for this node's log: a client learns nothing from it."""


class Mechanism(Protocol):
    """One run of a mechanism."""

    username: str
    """Name of the client, once the run is complete."""
    is_complete: bool

    def step(self, message: bytes) -> bytes:
        """Return the answer to the client's next message. Raise `RefusedError` for one that proves nothing."""
