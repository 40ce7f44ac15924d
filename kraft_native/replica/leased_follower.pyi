from collections.abc import Callable
from typing import Protocol, final

class _Sender(Protocol):
    def next_fetch(self, end_offset: int, high_watermark: int) -> tuple[int, bytes]:
        """Record that an answer was accepted; return the descriptor and the frame of the Fetch after it."""

class _Log(Protocol):
    """The subset of `kraft_native.facade.log.Log` that a follower uses."""

    def send_when_durable(self, end_offset: int, fd: int, message: bytes) -> bool: ...
    def take_back(self) -> bool: ...

@final
class LeasedFollower:
    """Follower of the leader from `begin` to `end`, the lease of its core. It appends the records of each answer, and
    the flusher's thread sends the next Fetch when they are durable. One thread.

    `append(records)` appends plain records and begins to flush them; it returns the log end, or -1 when it did nothing.
    `on_accepted(sends)` is called when an answer was accepted; `sends` is false when the log is durable already, and so
    the next Fetch is not sent.
    """

    def __init__(self, log: _Log, append: Callable[[object], int],
                 on_accepted: Callable[[bool], object]) -> None: ...
    def begin(self, end_offset: int, fetch: tuple[int, bytes] | None) -> bool:
        """Begin at the log end. `fetch`: descriptor and frame of the Fetch from there; None when it was sent. Return
        False, and do nothing, when it has to be sent now because the log is durable."""

    def end(self) -> tuple[int, int, bool]:
        """Accept nothing until `begin`. Return the log end, the high watermark of the last accepted answer (-1 without
        one), and whether the Fetch from the log end was sent. If not, it will not be."""

    def accept(self, sender: _Sender, high_watermark: int, records: object) -> bool:
        """Process the answer to the Fetch from the log end. False: nothing was done with it."""
