"""Ctrl-C where it may come at any moment: it ends the work between two steps, never within one."""

import signal
from types import FrameType, TracebackType
from typing import Self


class Interrupt:
    """While it is entered, the first Ctrl-C is noted, and raised only where `allow` says so or `check` is called; every
    further one that finds it unheard is raised at once, for whoever is stuck. Main thread.
    """

    def __init__(self) -> None:
        self.asked = 0
        self._allowed = False

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._noted)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        signal.signal(signal.SIGINT, self._before)

    def allow(self, allowed: bool) -> None:
        """Whether it may be raised anywhere from now on: around what waits for somebody else."""
        self._allowed = allowed
        if allowed:
            self.check()

    def check(self) -> None:
        """Raises `KeyboardInterrupt` if there was a Ctrl-C."""
        if self.asked:
            raise KeyboardInterrupt

    def _noted(self, _number: int, _frame: FrameType | None) -> None:
        self.asked += 1
        if self._allowed or self.asked > 1:
            self._allowed = False
            raise KeyboardInterrupt
