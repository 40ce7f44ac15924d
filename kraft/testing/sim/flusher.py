"""The flusher's thread of one process, and the log as the driver sees it.

The thread flushes appended records beside the loop, one flush at a time. The loop may learn of a flush much later than
it ended. A message to be sent at the end of the flush has left by then.
"""

from collections.abc import Callable
from typing import Any, Protocol, Self

from kraft.testing.sim.disk import DiskError
from kraft.testing.sim.log import SimLog


class Host(Protocol):
    """Process of the thread."""

    def begin_flush(self, ended: Callable[[], None]) -> None:
        """Begin a flush; `ended` is called in the thread when it has ended."""

    def notify_loop(self) -> None:
        """Notify the loop, now or a little later, that a flush has ended."""

    def send(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function that sends a message."""

    def count(self, name: str) -> None: ...


class Flusher:
    """`DrivenLog` and `FlushedLog` on a simulated log. `leave` sends the prepared message. After a failed flush there
    is no other."""

    flush_eventfd = -1

    def __init__(self, log: SimLog, host: Host, leave: Callable[[], None]) -> None:
        self._log = log
        self._host = host
        self._leave = leave
        self.is_readable = False
        """True while the loop has a notification to read."""
        self._is_flushing = False
        self._sends_at: int | None = None
        self._has_left = False
        self._notifies_from = 0
        log.appended = self.flush_soon

    def flush_soon(self) -> None:
        if not self._is_flushing:
            self._begin()

    def _begin(self) -> None:
        self._is_flushing = True
        mark = self._log.flush_begins()
        self._host.begin_flush(lambda: self._ended(mark))

    def _ended(self, mark: int) -> None:
        self._is_flushing = False
        try:
            self._log.flush_ends(mark)
        except DiskError as error:
            self._log.failure, self._sends_at = error, None
        else:
            if self._sends_at is not None and self._sends_at <= self._log.durable_offset:
                self._host.send(self._send)
            if self._log.durable_offset < self._log.end.offset:
                self._begin()
        if self._log.failure is not None or self._log.durable_offset >= self._notifies_from:
            self.is_readable = True
            self._host.notify_loop()

    def _send(self) -> None:
        self._sends_at, self._has_left = None, True
        self._leave()

    def read_event(self, fd: int) -> None:  # noqa: ARG002 - only one exists
        self.is_readable = False

    # --- FlushedLog

    @property
    def durable_end_offset(self) -> int:
        return self._log.durable_offset

    @property
    def failure(self) -> DiskError | None:
        return self._log.failure

    def poll(self) -> int:
        return 0

    def send_when_durable(self, end_offset: int, fd: int, message: bytes) -> bool:  # noqa: ARG002 - see `leave`
        self._has_left = False
        self._sends_at = end_offset if end_offset > self._log.durable_offset else None
        return self._sends_at is not None

    def take_back(self) -> bool:
        if self._sends_at is not None:
            self._host.count("fetch taken back")
        has_left, self._has_left, self._sends_at = self._has_left, False, None
        return has_left

    def notify_flushes_from(self, end_offset: int) -> bool:
        self._notifies_from = end_offset
        return self._log.durable_offset < end_offset

    # --- DrivenLog

    @property
    def log(self) -> Self:
        return self

    def append_leased(self, records: object) -> int:
        return self._log.append_leased(records)

    def flush_appended(self) -> None:
        if self._log.durable_offset < self._log.end.offset:
            self.flush_soon()
