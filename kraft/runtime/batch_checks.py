"""Costly batches of Produce requests are decompressed and checked in a thread of their own."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class BatchChecks:
    """Loop thread only, but for the work itself.

    One thread, and a queue that is short by itself: a connection has one request in it at most, and its bytes count as
    request memory. `on_failure` hears of a fault of our own.
    """

    def __init__(self, on_failure: Callable[[BaseException], object]) -> None:
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kraft-batch-checks")
        self._closed = False
        self.total = 0
        """Batches since the start."""

    def offload(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """Runs `work` in the thread, then `done` on the loop."""
        self.total += 1

        def ended(_: Future[None]) -> None:
            if not self._closed:
                self._loop.call_soon_threadsafe(self._done, done)

        self._thread.submit(work).add_done_callback(ended)

    def _done(self, done: Callable[[], None]) -> None:
        if self._closed:
            return
        try:
            done()
        except Exception as error:  # noqa: BLE001 - an append that failed half-way is nothing to go on with
            self._on_failure(error)

    def close(self) -> None:
        """Waits for the batch it is at; what is queued is dropped, unanswered. May be called again."""
        self._closed = True
        self._thread.shutdown(cancel_futures=True)
