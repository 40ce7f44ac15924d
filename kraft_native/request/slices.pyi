from collections.abc import Callable, Generator
from typing import Any, final

from kraft_native.request.reply import Reply

@final
class Steps: ...

@final
class SliceQueue:
    """Work of one loop that is resumed in slices: pipelined requests of connections, requests with very many elements.
    Loop thread only; counters may be read at any time.

    `call_soon` is the loop's. `on_failure(exception)` gets exceptions of the work: internal errors. A slice is the time
    that one connection or one request has before others have theirs. An iteration is the time that all slices have
    before the loop serves sockets and timers again.
    """

    slice_ns: int
    iteration_ns: int
    spent_ns: int
    iterations: int
    long_count: int
    """Requests with many slices that are in progress; others of that kind wait."""
    turn_ns: int
    """The slice of the connection in progress."""
    deferred: int
    """Count of slices that connections used up."""
    used_up: dict[int, int]
    """Count of requests that used up their slice, by api key."""
    longest_ns: dict[int, int]
    """Longest step above a slice, by api key: nothing else was served meanwhile. -1: the longest slice of a
    connection."""

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
        """Number of connections and requests that wait for their next slice."""

    def start(self, reply: Reply, work: Generator[None]) -> None:
        """Run `work` for a slice now, and the rest of it in later iterations. It yields after each step of well below a
        millisecond; an exception of it is an internal error. It is closed when the connection of `reply` closes before
        the answer."""

    def work(self, api_key: int, work: Generator[None]) -> None:
        """Run work on a request of that API that does not end with its connection; all of it in later iterations."""

    def run(self) -> None: ...
