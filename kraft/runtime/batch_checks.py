"""Costly batches of Produce requests are decompressed and checked in a thread of their own."""

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Protocol


class Check(Protocol):
    """A request with a costly batch: `run` checks it in the thread, `resume` goes on with it on the loop."""

    def run(self) -> None: ...

    def resume(self) -> None: ...


class BatchChecks:
    """Loop thread only, but for the work itself.

    One thread, and a queue that is short by itself: a connection has one request in it at most, and its bytes count as
    request memory. `offload` and what the loop calls in the end are compiled: no Python runs there for a request.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Check | None] = SimpleQueue()
        self._closed = False
        self.offload: Callable[[Check], None] = self._queue.put
        """Has a check done."""
        self.total = 0
        """Batches since the start."""
        self._thread = Thread(target=self._work, name="kraft-batch-checks", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while (check := self._queue.get()) is not None and not self._closed:
            check.run()
            self.total += 1
            if not self._closed:
                self._loop.call_soon_threadsafe(check.resume)

    def close(self) -> None:
        """Waits for the batch it is at; what is queued is dropped, unanswered. May be called again."""
        self._closed = True
        self._queue.put(None)
        self._thread.join()
