from collections.abc import Callable
from typing import Any, Protocol, final

class _Sender(Protocol):
    def next_fetch(self, end_offset: int, high_watermark: int) -> tuple[int, bytes]:
        """Record the sending of the Fetch after the current answer; return its descriptor and its frame."""

class _Log(Protocol):
    """The subset of `kraft_native.facade.log.Log` that a chain uses."""

    def send_when_durable(self, end_offset: int, fd: int, message: bytes) -> bool: ...
    def take_back(self) -> bool: ...

@final
class FetchChain:
    """Consecutive Fetches of a follower. An answer is appended if it differs from the one before only in the high
    watermark and the records. The flusher's thread sends the next Fetch when the records are durable. One thread.

    `append(records)` appends and begins to flush; it returns the log end, or -1 when it did nothing.
    `on_accepted(sends)` is called when an answer was accepted; `sends` is false when the log is durable already, and so
    the next Fetch is not sent.
    """

    def __init__(self, log: _Log, append: Callable[[object], int],
                 on_accepted: Callable[[bool], object]) -> None: ...
    def begin(self) -> None:
        """Record that a Fetch was given to the log to be sent."""

    def end(self) -> tuple[bool, tuple[Any, int, object] | None]:
        """Accept nothing until `begin`. Return whether the last Fetch has left (if not, it will not), and the last
        accepted answer since: the one that it is like, its high watermark and its records."""

    def take(self, sender: _Sender, like: object, high_watermark: int, records: object) -> bool:
        """Process the answer to the Fetch that was given to the log last. False: nothing was done with it."""
