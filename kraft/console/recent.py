"""Values that were computed a moment ago: several visitors and the refreshes of a page share one computation."""

import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar

Value = TypeVar("Value")
ENTRIES_MAX: Final = 64


class Recent:
    """Cache by key. Any thread; one thread computes a value, the others that want it wait."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._values: dict[Hashable, tuple[float, Any]] = {}
        self._locks: dict[Hashable, threading.Lock] = {}

    def get(self, key: Hashable, seconds: float, make: Callable[[], Value]) -> Value:
        """Return the value of the key, at most `seconds` old. What `make` raises is not kept."""
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            with self._lock:
                found = self._values.get(key)
            if found is not None and self._clock() - found[0] <= seconds:
                value: Value = found[1]
                return value
            try:
                value = make()
            except BaseException:
                with self._lock:
                    if key not in self._values:
                        self._locks.pop(key, None)
                raise
            with self._lock:
                self._values[key] = (self._clock(), value)
                while len(self._values) > ENTRIES_MAX:
                    oldest = min(self._values, key=lambda each: self._values[each][0])
                    del self._values[oldest]
                    self._locks.pop(oldest, None)
            return value

    def clear(self) -> None:
        """Forget all values: something was changed."""
        with self._lock:
            self._values.clear()
            self._locks.clear()
