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
        # Not `join`: one that Ctrl-C interrupts takes the thread for ended.
        self._ended = threading.Event()

    def run(self) -> None:
        try:
            self._result = self.load.run(self._seconds, slots=self._slots)
        except (KraftError, OSError) as error:
            self._failure = error
        finally:
            self.computed = time.thread_time()
            self._ended.set()

    @property
    def is_running(self) -> bool:
        """Return whether the thread was started and its run has not ended."""
        return self.ident is not None and not self._ended.is_set()

    def wait(self) -> None:
        """Wait for the end of the run."""
        self._ended.wait()

    def progress(self) -> LoadResult | None:
        """Return the counts so far, None before the run has begun. Raises what has ended it."""
        found = self.load.progress()
        if found is None and self._ended.is_set():
            raise self._failure or OperationError("a load generator ended early")
        return found

    def stop(self) -> None:
        """Stop the generator, and wait for requests in progress."""
        while self.is_running and self.load.progress() is None:
            self._ended.wait(POLL_SECONDS)     # its run has not begun, and would begin after the stop
        self.load.stop()
        self._ended.wait()
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
        runner.wait()
    finally:
        runner.stop()
    return runner.found(), runner.computed
