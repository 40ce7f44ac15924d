from collections.abc import Callable
from typing import Any, Protocol, final

class _Sender(Protocol):
    def next_fetch(self, end_offset: int, high_watermark: int) -> tuple[int, bytes]:
        """By what and as what the Fetch is sent that follows the answer which is being taken."""

class _Log(Protocol):
    """Of `kraft_native.log.Log`, what a chain needs."""

    def send_when_durable(self, end_offset: int, fd: int, message: bytes) -> bool: ...
    def take_back(self) -> bool: ...

@final
class FetchChain:
    """A follower's Fetches that follow each other: each answer that is like the one before, but for the high watermark
    and the records, is appended, and the next Fetch is sent by the flusher's thread when that is durable. One thread.

    `append(records)` appends and begins to flush; gives the log end, or -1 when it did nothing. `told_later(sends)` is
    called when an answer was taken; `sends` is false when the log is durable already, and so the next Fetch is not
    sent.
    """

    def __init__(self, log: _Log, append: Callable[[object], int],
                 told_later: Callable[[bool], object]) -> None: ...
    def begin(self) -> None:
        """A Fetch was given to the log to be sent."""

    def end(self) -> tuple[bool, tuple[Any, int, object] | None]:
        """Nothing is taken until `begin`. Whether the last Fetch has left (if not, it will not), and the last answer
        that was taken since: which one it is like, its high watermark and its records."""

    def take(self, sender: _Sender, like: object, high_watermark: int, records: object) -> bool:
        """An answer has come to the Fetch that was given to the log last. False: nothing was done with it."""
