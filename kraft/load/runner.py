"""A generator in a thread of its own, so that the thread that waits for it can watch it and end it early."""

import threading
import time
from typing import Final

from kraft_native.base.errors import KraftError, OperationError
from kraft_native.bench.load_generator import Load, LoadResult

POLL_SECONDS: Final = 0.02


class Runner(threading.Thread):
    """One run of a generator, for `seconds` or until it is stopped. `computed` is the processor time of the run."""

    def __init__(self, load: Load, seconds: float, slots: int = 0) -> None:
        super().__init__(name="kraft-bench-load", daemon=True)
        self.load = load
        self.computed = 0.0
        self._seconds, self._slots = seconds, slots
        self._result: LoadResult | None = None
        self._failure: Exception | None = None

    def run(self) -> None:
        try:
            self._result = self.load.run(self._seconds, slots=self._slots)
        except (KraftError, OSError) as error:
            self._failure = error
        self.computed = time.thread_time()

    def progress(self) -> LoadResult | None:
        """Return the counts so far, None before the run has begun. Raises what has ended it."""
        found = self.load.progress()
        if found is None and not self.is_alive():
            raise self._failure or OperationError("a load generator ended early")
        return found

    def stop(self) -> None:
        """Stop the generator, and wait for requests in progress."""
        while self.is_alive() and self.load.progress() is None:
            time.sleep(POLL_SECONDS)           # its run has not begun, and would begin after the stop
        self.load.stop()
        self.join()

    def end(self) -> LoadResult:
        """Stop, and return all counts."""
        self.stop()
        return self.found()

    def found(self) -> LoadResult:
        """Return the counts of the run, which has ended. Raises what has ended it early."""
        if self._result is None:
            raise self._failure or OperationError("a load generator ended without a result")
        return self._result


def run(load: Load, seconds: float, slots: int = 0) -> tuple[LoadResult, float]:
    """Run a generator to its end; return its counts and its processor time. An exception in this thread, such as
    Ctrl-C, ends it early."""
    runner = Runner(load, seconds, slots)
    runner.start()
    try:
        runner.join()
    finally:
        if runner.is_alive():
            runner.stop()
    return runner.found(), runner.computed
