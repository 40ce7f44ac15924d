"""Times of the interpreter's garbage collections in a node.

A collection examines every object of the requests in progress, and every element of their arrays: 5 ms for an array
with 100,000 elements, several times per request. So a node disables the automatic collections. Almost all objects are
freed by their reference counts; the collections below free the rest, cycles, while no request waits.

The interpreter cannot pause a collection. So each one examines a bounded number of objects: those that survive a full
collection are not examined by the next ones, only once a day.
"""

import gc
from typing import Final

FULL_MS: Final = 300_000
"""Time between full collections, of what is new since the one before."""
EVERYTHING_MS: Final = 86_400_000
"""Time between full collections that examine all objects, also those of the node's start."""
WAIT_MS_MAX: Final = 60_000
"""Time after which young objects are examined although requests wait."""
MANY_WAIT_MS_MAX: Final = 600_000
"""Time after which they are examined although they are many. A large request has many for as long as it is processed,
and then they are few again. Only cycles stay."""
YOUNG_MIN: Final = 700
"""Young objects that are worth a collection; as in the interpreter."""
YOUNG_AT_ONCE_MAX: Final = 20_000
"""Young objects that a collection examines within 2 ms."""
OLD_AT_ONCE_MAX: Final = 50_000
"""Older objects, new since the last full collection, that are examined before their time, so that they do not become
more."""
YOUNGEST_COLLECTIONS: Final = 10
"""Collections of the youngest generation before one that includes the next generation."""


class GarbageSchedule:
    """Schedule of one node. Loop thread only."""

    def __init__(self, now_ms: int) -> None:
        self._full_ms = now_ms + FULL_MS
        self._everything_ms = now_ms + EVERYTHING_MS
        self._few_ms = now_ms
        self._survivors = self._old = 0
        """Objects of the two older generations, at most: some may have been freed since."""

    def run(self, now_ms: int, *, idle: bool) -> None:
        """Collect garbage if it is time. `idle`: no request waits."""
        young, youngest, _ = gc.get_count()
        waited_ms = now_ms - self._few_ms
        if young < YOUNG_MIN:
            self._few_ms = now_ms
        many = young > YOUNG_AT_ONCE_MAX and waited_ms < MANY_WAIT_MS_MAX
        if idle and not many and (now_ms >= self._full_ms or self._old >= OLD_AT_ONCE_MAX):
            self._collect_all(now_ms)
        elif young >= YOUNG_MIN and not many and (idle or waited_ms >= WAIT_MS_MAX):
            self._collect(now_ms, young, youngest)

    def _collect(self, now_ms: int, young: int, youngest: int) -> None:
        self._few_ms = now_ms
        self._survivors += young
        if youngest >= YOUNGEST_COLLECTIONS or self._survivors > YOUNG_AT_ONCE_MAX:
            self._old += max(0, self._survivors - gc.collect(1))
            self._survivors = 0
        else:
            self._survivors = max(0, self._survivors - gc.collect(0))

    def _collect_all(self, now_ms: int) -> None:
        self._few_ms = now_ms
        self._full_ms = now_ms + FULL_MS
        self._survivors = self._old = 0
        if now_ms >= self._everything_ms:
            self._everything_ms = now_ms + EVERYTHING_MS
            gc.unfreeze()
        gc.collect()
        gc.freeze()
