"""Times of the interpreter's garbage collections in a node.

A collection examines every object of the requests in progress, and every element of their arrays: 5 ms for an array
with 100,000 elements, several times per request. So a node disables the automatic collections. Almost all objects are
freed by their reference counts; the collections below free the rest, cycles, while no request waits.
"""

import gc
from typing import Final

FULL_MS: Final = 300_000
"""Time between full collections."""
WAIT_MS_MAX: Final = 60_000
"""Time after which young objects are examined although requests wait."""
MANY_WAIT_MS_MAX: Final = 600_000
"""Time after which they are examined although they are many. A large request has many for as long as it is processed,
and then they are few again. Only cycles stay."""
YOUNG_MIN: Final = 700
"""Young objects that are worth a collection; as in the interpreter."""
YOUNG_AT_ONCE_MAX: Final = 20_000
"""Young objects that a collection examines within 2 ms."""
YOUNGEST_COLLECTIONS: Final = 10
"""Collections of the youngest generation before one that includes the next generation."""


class GarbageSchedule:
    """Schedule of one node. Loop thread only."""

    def __init__(self, now_ms: int) -> None:
        self._full_ms = now_ms + FULL_MS
        self._few_ms = now_ms

    def run(self, now_ms: int, *, idle: bool) -> None:
        """Collect garbage if it is time. `idle`: no request waits."""
        if idle and now_ms >= self._full_ms:
            self._full_ms = now_ms + FULL_MS
            self._collect(now_ms, 2)
            return
        young, youngest, _ = gc.get_count()
        waited_ms = now_ms - self._few_ms
        if young < YOUNG_MIN:
            self._few_ms = now_ms
        elif waited_ms >= MANY_WAIT_MS_MAX or (young <= YOUNG_AT_ONCE_MAX and (idle or waited_ms >= WAIT_MS_MAX)):
            self._collect(now_ms, 1 if youngest >= YOUNGEST_COLLECTIONS else 0)

    def _collect(self, now_ms: int, generation: int) -> None:
        self._few_ms = now_ms
        gc.collect(generation)
