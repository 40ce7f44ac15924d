"""Attempts of a blocking client: which errors are temporary, the pause between attempts, and the limit of all."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

from kraft.client.connection import AuthenticationError, ConnectionFailedError
from kraft.client.refusals import RefusedError
from kraft.protocol.error_codes import ErrorCode
from kraft_native.base.errors import KraftError

PAUSE_SECONDS: Final = 0.1
COORDINATOR_NOT_YET: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                              ErrorCode.COORDINATOR_NOT_AVAILABLE)
"""The coordinator has changed, has not read its log, or is busy with the same."""

Answer = TypeVar("Answer")


def is_temporary(error: KraftError) -> bool:
    """Return whether the same request may succeed later: Kafka's flag of an error code; a lost connection."""
    if isinstance(error, RefusedError):
        return error.retriable
    return isinstance(error, ConnectionFailedError) and not isinstance(error, AuthenticationError)


class Attempts:
    """Attempts of one operation, for at most `seconds` since the last progress. Used by one thread, which sleeps for
    `pause_seconds` between two of them."""

    def __init__(self, seconds: float, pause_seconds: float = PAUSE_SECONDS) -> None:
        self.seconds = seconds
        self.pause_seconds = pause_seconds
        self._began = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the last progress."""
        return time.monotonic() - self._began

    @property
    def left(self) -> float:
        """Seconds until the limit; negative after it."""
        return self.seconds - self.elapsed

    @property
    def over(self) -> bool:
        """True when there is no time for another attempt."""
        return self.left < self.pause_seconds

    def progress(self) -> None:
        """Begin the limit again."""
        self._began = time.monotonic()

    def again(self, error: KraftError) -> None:
        """Pause before the next attempt. Raises `error` when it is not temporary, or the time is over."""
        if self.over or not is_temporary(error):
            raise error
        self.pause()

    def pause(self) -> None:
        """Sleep between two attempts."""
        time.sleep(self.pause_seconds)


def persist(timeout: float, act: Callable[[], Answer], reset: Callable[[], None] = lambda: None) -> Answer:
    """Return the result of `act`. Temporary errors are retried for `timeout` seconds, each time after `reset` (for new
    connections: the cluster's `close`). Then, and at once for other errors, raises `RefusedError` or
    `ConnectionFailedError`."""
    attempts = Attempts(timeout)
    while True:
        try:
            return act()
        except (ConnectionFailedError, RefusedError) as error:
            attempts.again(error)
        reset()


def await_coordinator(timeout: float, act: Callable[[], None]) -> None:
    """Run `act`, again for `timeout` seconds while a coordinator refuses with one of `COORDINATOR_NOT_YET`. Then, and
    at once for other errors, raises the error."""
    attempts = Attempts(timeout)
    while True:
        try:
            act()
        except RefusedError as error:
            if error.code not in COORDINATOR_NOT_YET:
                raise
            attempts.again(error)
        else:
            return
