"""A node's own clock. Nodes use clocks that never go backward (`CLOCK_MONOTONIC`). So a clock here may run at a wrong
rate and may jump forward, as that of a suspended virtual machine does.

The monotonic clock of each node begins at another time. Their wall clocks agree when the run begins."""

from kraft.testing.sim.loop import Loop

PPM = 1_000_000


class Clock:
    """Clock of one node. `rate_ppm`: how many of its own microseconds pass in a second. `first_us`: its time when the
    run begins."""

    def __init__(self, loop: Loop, rate_ppm: int = PPM, start_ms: int = 0) -> None:
        self._loop = loop
        self._rate_ppm = rate_ppm
        self._since_us = loop.now_us
        self._start_us = self.first_us = start_ms * 1000

    @property
    def now_us(self) -> int:
        return self._start_us + (self._loop.now_us - self._since_us) * self._rate_ppm // PPM

    @property
    def now_ms(self) -> int:
        return (self._start_us + (self._loop.now_us - self._since_us) * self._rate_ppm // PPM) // 1000

    @property
    def passed_us(self) -> int:
        """Time that has passed by this clock since the run began: the wall clock of the node counts from there."""
        return self.now_us - self.first_us

    def jump(self, milliseconds: int) -> None:
        """Let the clock jump forward: this time has passed unnoticed."""
        self._start_us += milliseconds * 1000

    def at_us(self, deadline_ms: int) -> int:
        """Return the first instant of the loop at which this clock shows `deadline_ms` or more."""
        ahead_us = deadline_ms * 1000 - self._start_us
        return self._since_us + -(-ahead_us * PPM // self._rate_ppm)
