"""One deadline on the running loop, for those who are asked when they are due again and then say so."""

import asyncio
from collections.abc import Callable

from kraft.raft.types import NEVER_MS


class Alarm:
    """Calls `on_due` when its time has come, by `clock` in ms. Loop thread only.

    It may come too soon, when what it was set for was put off: `on_due` looks at what is due, and sets it again. So to
    put a deadline off costs nothing.
    """

    def __init__(self, clock: Callable[[], int], on_due: Callable[[], None]) -> None:
        self._clock = clock
        self._on_due = on_due
        self._timer: asyncio.TimerHandle | None = None
        self._deadline_ms = NEVER_MS

    def set(self, deadline_ms: int) -> None:
        """NEVER_MS: nothing is due."""
        if deadline_ms >= self._deadline_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._deadline_ms = deadline_ms
        self._timer = asyncio.get_running_loop().call_later(max(0, deadline_ms - self._clock()) / 1000, self._ring)

    def cancel(self) -> None:
        """Nothing is due, until it is set again."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._deadline_ms = NEVER_MS

    def _ring(self) -> None:
        self._timer = None
        self._deadline_ms = NEVER_MS
        self._on_due()
