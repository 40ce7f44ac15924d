"""Warnings at a bounded rate, for faults that a peer can repeat at will."""

import logging
from collections.abc import Callable


class BoundedLog:
    """Logs at most `lines_max` warnings in each period of `period_ms`, so that peers cannot fill the disk.

    The first warning of a later period follows a line with the number of the omitted ones: `omitted`, which has one
    `%d`. `clock_ms` returns milliseconds that never go back. Loop thread only.
    """

    def __init__(self, log: logging.Logger, clock_ms: Callable[[], int], *, period_ms: int, lines_max: int,
                 omitted: str) -> None:
        self._log = log
        self._clock_ms = clock_ms
        self._period_ms = period_ms
        self._lines_max = lines_max
        self._omitted = omitted
        self._period = 0
        self._count = 0

    def warning(self, text: str, *values: object) -> None:
        """Log one warning, unless this period has had its share."""
        if (period := self._clock_ms() // self._period_ms) != self._period:
            if self._count > self._lines_max:
                self._log.warning(self._omitted, self._count - self._lines_max)
            self._period, self._count = period, 0
        self._count += 1
        if self._count <= self._lines_max:
            self._log.warning(text, *values)
