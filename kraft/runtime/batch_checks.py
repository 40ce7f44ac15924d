"""Costly batches of Produce requests are decompressed and checked in a thread of their own."""

import asyncio
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Protocol

from kraft.runtime.host_shares import HostShares


class Check(Protocol):
    """A request with a costly batch: `run` checks it in the thread, `resume` goes on with it on the loop."""

    @property
    def peer_host(self) -> str: ...

    def run(self) -> None: ...

    def resume(self) -> None: ...


class BatchChecks:
    """Loop thread only, but for the work itself.

    One thread, and a queue that is short by itself: a connection has one request in it at most, and its bytes count as
    request memory. The hosts that clients connect from share the thread's time, so one that sends nothing but costly
    batches holds up another's for no longer than one of them takes. `offload` and what the loop calls in the end are
    compiled: no Python runs there for a request.
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
        shares = HostShares[Check]()
        while self._admit(shares):
            check = shares.take()
            begun_ns = time.thread_time_ns()
            check.run()
            shares.charge(check, time.thread_time_ns() - begun_ns)
            self.total += 1
            if not self._closed:
                self._loop.call_soon_threadsafe(check.resume)

    def _admit(self, shares: HostShares[Check]) -> bool:
        """Takes in what has come, waits for it where there is nothing else; False after the close."""
        while not self._closed:
            try:
                check = self._queue.get(block=not shares)
            except Empty:
                return True
            if check is None:
                break
            shares.add(check)
        return False

    def close(self) -> None:
        """Waits for the batch it is at; what is queued is dropped, unanswered. May be called again."""
        self._closed = True
        self._queue.put(None)
        self._thread.join()
