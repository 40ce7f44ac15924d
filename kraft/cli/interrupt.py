"""Handling of Ctrl-C at any moment: it ends the work between two steps, never within one."""

import signal
from types import FrameType
from typing import Self


class Interrupt:
    """Context manager of the main thread that defers Ctrl-C. The first one is recorded, and raised only where `allow`
    permits it or `check` is called. While the first one is pending, a further one is raised at once, in case the work
    is stuck.
    """

    def __init__(self) -> None:
        self.count = 0
        self._allowed = False

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._noted)
        return self

    def __exit__(self, *exception: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def allow(self, allowed: bool) -> None:
        """Set whether it may be raised anywhere from now on. Allow it around waits for other processes."""
        self._allowed = allowed
        if allowed:
            self.check()

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if there was a Ctrl-C."""
        if self.count:
            raise KeyboardInterrupt

    def _noted(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        if self._allowed or self.count > 1:
            self._allowed = False
            raise KeyboardInterrupt
