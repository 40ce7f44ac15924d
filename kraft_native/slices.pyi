"""Shares of the loop's time: what is longer than a slice is resumed in a later iteration, in a fair queue."""

from collections.abc import Callable, Generator
from typing import Any, final

from kraft_native.reply import Reply

@final
class Steps:
    """One request's work as a generator; the queue makes it."""

@final
class SliceQueue:
    """All work of one loop that is resumed in slices: pipelined requests of connections, requests with very many
    elements. Loop thread only; counters may be read at any time.

    `call_soon` is the loop's. `on_failure(exception)` gets what work raises: a fault of our own. A slice is the time
    that one connection or one request has before others have theirs; an iteration is the time that all slices have
    before the loop serves sockets and timers again.
    """

    slice_ns: int
    iteration_ns: int
    spent_ns: int
    iterations: int
    long_count: int
    """Requests with many slices that are worked on; others of that kind wait."""
    turn_ns: int
    """The slice of the connection that is being served."""
    deferred: int
    """Slices that connections used up."""
    used_up: dict[int, int]
    """By api key: requests that used up their slice."""
    longest_ns: dict[int, int]
    """By api key the longest step that was longer than a slice: nothing else was served meanwhile. -1: the longest
    slice of a connection."""

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], Any],
        on_failure: Callable[[BaseException], object],
        *,
        slice_us: int = 1000,
        iteration_us: int = 4000,
    ) -> None: ...
    @property
    def waiting_count(self) -> int:
        """Connections and requests that wait for their next slice."""

    def start(self, reply: Reply, work: Generator[None]) -> None:
        """Runs `work` for a slice now, and the rest of it in later iterations. It gives way after each step of well
        below a millisecond; what it raises is a fault of our own. It is closed when the connection of `reply` is gone
        before the answer."""

    def work(self, api_key: int, work: Generator[None]) -> None:
        """The same for work on a request of that API that does not end with its connection; all of it in later
        iterations."""

    def run(self) -> None:
        """One iteration. The loop calls it."""
