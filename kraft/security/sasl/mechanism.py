"""Server's side of a SASL mechanism, as the exchange sees it."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol


class RefusedError(Exception):
    """The client's identity is not proven. The text is for this node's log: a client learns nothing from it."""


class Work(NamedTuple):
    """Part of a step that takes too long for an event loop.

    - `ready` is awaited first, on the loop. It raises nothing.
    - `run` is called by another thread. It returns a `RefusedError` instead of raising it.
    - `then` gets the result, on the loop, and returns the answer to the client. It may raise `RefusedError`.
    """

    run: Callable[[], Any]
    then: Callable[[Any], bytes]
    ready: Callable[[], Awaitable[None]] | None = None


class Mechanism(Protocol):
    """One run of a mechanism."""

    username: str
    """Name that the client claims; it is its name once the run is complete. Empty before its message."""
    is_complete: bool
    expires_ms: int
    """Wall-clock time at which the proof of the identity ends; 0: it does not."""
    by_token: bool
    """The proof was a delegation token."""

    def step(self, message: bytes) -> bytes | Work:
        """Return the answer to the client's next message, or the work that leads to it. Raise `RefusedError` for a
        message that proves nothing."""
