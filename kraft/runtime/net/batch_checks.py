"""A thread that decompresses and checks costly batches of Produce requests."""

import asyncio
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Protocol

from kraft.runtime.net.host_shares import HostShares


class Check(Protocol):
    """A request with a costly batch: `run` checks it in the thread, `resume` continues it on the loop."""

    @property
    def peer_host(self) -> str: ...

    def run(self) -> None: ...

    def resume(self) -> None: ...


class BatchChecks:
    """The thread of the checks and its queue. Loop thread only, except for the checks themselves.

    The queue is short by itself: a connection has at most one request in it, and its bytes count as request memory. The
    clients' hosts share the thread's time. A host that sends only costly batches therefore delays another host's batch
    by no more than one of its own. `offload` and the loop's callback at the end are compiled: no Python runs there for
    a request.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Check | None] = SimpleQueue()
        self._closed = False
        self.offload: Callable[[Check], None] = self._queue.put
        """Queue a check."""
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
        """Accept the queued checks; wait only when nothing else is pending. Returns False after the close."""
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
        """Wait for the current batch; drop the queued ones unanswered. May be called again."""
        self._closed = True
        self._queue.put(None)
        self._thread.join()
