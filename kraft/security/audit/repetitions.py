"""Bound on events that a peer can repeat at will: further ones like the first are counted, and reported together.

Without it, failed logins of anybody could push the other events out of files of a bounded size.
"""

from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

from kraft.security.audit.event import Event
from kraft.structs import mutable

PERIOD_MS: Final = 60_000
SINGLE_MAX: Final = 5
"""Events with the same key that are written one by one in each period."""
KEYS_MAX: Final = 256
"""Different keys in one period; all further ones share one."""
OTHERS: Final = "others"


@mutable
class _Counted:
    event: Event
    singles: int = 0
    count: int = 0
    first_ms: int = 0
    last_ms: int = 0


class Repeated(NamedTuple):
    """Further events like `event`, so many of them from `first_ms` to `last_ms`."""

    event: Event
    further: int
    first_ms: int
    last_ms: int


class Repetitions:
    """Counts of one period."""

    def __init__(self) -> None:
        self._began_ms = 0
        self._by_key: dict[Hashable, _Counted] = {}

    def admitted(self, key: Hashable, make: Callable[[], Event], now_ms: int) -> Event | None:
        """Return the event if it is to be written by itself; else only count it, which is cheap. Call `due` before."""
        if not self._by_key:
            self._began_ms = now_ms
        if key not in self._by_key and len(self._by_key) >= KEYS_MAX:
            key = OTHERS
        counted = self._by_key.get(key)
        if counted is None:
            counted = self._by_key[key] = _Counted(make(), singles=1)
            return counted.event
        if counted.singles < SINGLE_MAX:
            counted.singles += 1
            return make()
        counted.first_ms = counted.first_ms or now_ms
        counted.count += 1
        counted.last_ms = now_ms
        return None

    def due(self, now_ms: int, *, is_end: bool = False) -> list[Repeated]:
        """Return what was counted in a period that is over, and begin another one. `is_end`: the period ends now."""
        if not self._by_key or not (is_end or now_ms - self._began_ms >= PERIOD_MS):
            return []
        found = [Repeated(each.event, each.count, each.first_ms, each.last_ms) for each in self._by_key.values()
                 if each.count]
        self._by_key = {}
        return found
