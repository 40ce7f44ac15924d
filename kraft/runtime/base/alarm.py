"""One deadline on the running loop, for objects that run when due and then return their next deadline."""

import asyncio
from collections.abc import Callable

from kraft.deadlines import NEVER_MS


class Alarm:
    """Timer that calls `on_due` when its deadline has come, by `clock` in ms. Loop thread only.

    It may fire early, when its deadline was postponed: `on_due` checks what is due, and sets the alarm again. So a
    postponement costs nothing.
    """

    def __init__(self, clock: Callable[[], int], on_due: Callable[[], None]) -> None:
        self._clock = clock
        self._on_due = on_due
        self._timer: asyncio.TimerHandle | None = None
        self._deadline_ms = NEVER_MS

    def set(self, deadline_ms: int) -> None:
        """Set the deadline, if it is earlier than the current one. NEVER_MS: nothing is due."""
        if deadline_ms >= self._deadline_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._deadline_ms = deadline_ms
        self._timer = asyncio.get_running_loop().call_later(max(0, deadline_ms - self._clock()) / 1000, self._ring)

    def cancel(self) -> None:
        """Cancel the deadline, until the next `set`."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._deadline_ms = NEVER_MS

    def _ring(self) -> None:
        self._timer = None
        self._deadline_ms = NEVER_MS
        self._on_due()
