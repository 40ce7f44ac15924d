"""Log lines at a bounded rate, for faults that a peer can repeat at will."""

import logging
from collections.abc import Callable


class BoundedLog:
    """Logs at most `lines_max` lines in each period of `period_ms`, so that peers cannot fill the disk.

    The first line of a later period follows a line with the number of the omitted ones: `omitted`, which has one
    `%d`. `clock_ms` returns milliseconds that never go back. Loop thread only.
    """

    def __init__(self, log: logging.Logger, clock_ms: Callable[[], int], *, period_ms: int, lines_max: int,
                 omitted: str, level: int = logging.WARNING) -> None:
        """`level`: that of the lines."""
        self._log = log
        self._level = level
        self._clock_ms = clock_ms
        self._period_ms = period_ms
        self._lines_max = lines_max
        self._omitted = omitted
        self._period = 0
        self._count = 0

    def put(self, text: str, *values: object) -> None:
        """Log one line, unless this period has had its share."""
        if (period := self._clock_ms() // self._period_ms) != self._period:
            if self._count > self._lines_max:
                self._log.log(self._level, self._omitted, self._count - self._lines_max)
            self._period, self._count = period, 0
        self._count += 1
        if self._count <= self._lines_max:
            self._log.log(self._level, text, *values)
