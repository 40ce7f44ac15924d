"""Waiting for work of other nodes that may never end: the wait lasts as long as there is progress."""

import time
from collections.abc import Callable
from typing import Final

from kraft.client import RefusedError
from kraft.protocol.error_codes import ErrorCode

STALL_SECONDS: Final = 300.0


class Stall:
    """Watchdog that ends a wait when the observed state has not changed for `seconds`."""

    def __init__(self, what: str, seconds: float = STALL_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._seconds = seconds
        self._clock = clock
        self._since = clock()
        self._state: object = None

    def check(self, state: object) -> None:
        """Record the state. Raises `RefusedError` (REQUEST_TIMED_OUT) when it has not changed for too long."""
        now = self._clock()
        if state != self._state:
            self._state, self._since = state, now
        elif now - self._since > self._seconds:
            raise RefusedError(self._what, ErrorCode.REQUEST_TIMED_OUT,
                               f"nothing has moved for {self._seconds:g} s; it stays under way, and kraft why "
                               "TOPIC/PARTITION names what it waits for")
