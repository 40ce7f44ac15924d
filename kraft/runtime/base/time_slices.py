"""Slices of bounded length for work that shares the event loop with requests."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Generator
from typing import Final

from kraft_native.base.clock import now_ns

# Length of a slice; then the loop serves requests again.
SLICE_SECONDS: Final = 0.005


class TimeSlice:
    """A slice of work, which yields to the loop when it has lasted long enough, by the clock of compiled code."""

    def __init__(self) -> None:
        self.until_ns = now_ns() + int(SLICE_SECONDS * 1e9)

    async def give_way(self) -> None:
        """Yield between two units of work, if the slice has ended."""
        if now_ns() >= self.until_ns:
            await asyncio.sleep(0)
            self.until_ns = now_ns() + int(SLICE_SECONDS * 1e9)


class WorkQueue:
    """Works in steps, one after the other, in one slice of each iteration of the loop. Loop thread only.

    It is for work that must not wait behind the requests of clients: replay, fencing, changes of roles. Work that is
    added to an empty queue begins at once. So short work ends in the call that adds it, which raises its error. An
    error in a later iteration is passed to `on_failure`. After an error nothing more is done.

    `on_slice` is called after each slice in a later iteration: what the work was to bring may be present.

    A slice is measured in processor time of this thread: other processes do not end it.
    """

    def __init__(self, on_failure: Callable[[BaseException], object],
                 on_slice: Callable[[], object] = lambda: None) -> None:
        self._on_failure = on_failure
        self._on_slice = on_slice
        self._works: deque[Generator[None]] = deque()
        self._handle: asyncio.Handle | None = None
        self._running = False
        self._closed = False

    def add(self, work: Generator[None]) -> None:
        """Do the work after all that was added before."""
        if self._closed:
            work.close()
            return
        self._works.append(work)
        if self._handle is None and not self._running:
            self._run()

    def __bool__(self) -> bool:
        """Return whether work is not done yet."""
        return bool(self._works)

    def close(self) -> None:
        """Drop what is not done. May be called again, also from inside a step."""
        self._closed = True
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        while len(self._works) > self._running:        # the one that runs ends after its step
            self._works.pop().close()

    def _resume(self) -> None:
        self._handle = None
        try:
            self._run()
            self._on_slice()
        except Exception as error:  # noqa: BLE001 - work that ended half-way is no base to continue from
            self._on_failure(error)

    def _run(self) -> None:
        until = time.thread_time() + SLICE_SECONDS
        self._running = True
        try:
            while self._works:
                for _ in self._works[0]:
                    if self._closed:
                        return
                    if time.thread_time() >= until:
                        self._handle = asyncio.get_running_loop().call_soon(self._resume)
                        return
                self._works.popleft()
        except BaseException:
            self._closed = True
            raise
        finally:
            self._running = False
            if self._closed:
                self.close()
