"""Deadlines by key, for a loop that passes the time.

Postponing a timer, as every heartbeat does, costs no heap operation. Its entry stays in the heap and is moved when the
entry's time comes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TypeAlias

Key: TypeAlias = tuple[str, ...]
Action: TypeAlias = Callable[[], None]


class _Timer:
    __slots__ = ("action", "deadline_ms", "sequence")

    def __init__(self, deadline_ms: int, sequence: int, action: Action) -> None:
        self.deadline_ms = deadline_ms
        self.sequence = sequence    # of its entry in the heap; entries with another one are leftovers
        self.action = action


class Timers:
    """One action per key. Due actions run in the order of their deadlines, then of their arming."""

    __slots__ = ("_heap", "_sequence", "_timers")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Key]] = []
        self._timers: dict[Key, _Timer] = {}
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._timers)

    def __contains__(self, key: Key) -> bool:
        return key in self._timers

    def schedule(self, key: Key, deadline_ms: int, action: Action) -> None:
        """Run `action` at `deadline_ms`, replacing the previous timer of `key`."""
        timer = self._timers.get(key)
        if timer is not None and deadline_ms >= timer.deadline_ms:
            timer.deadline_ms = deadline_ms
            timer.action = action
            return
        self._sequence += 1
        self._timers[key] = _Timer(deadline_ms, self._sequence, action)
        heapq.heappush(self._heap, (deadline_ms, self._sequence, key))
        if len(self._heap) > 64 + 2 * len(self._timers):
            self._rebuild()

    @property
    def armed(self) -> int:
        """Number of timers armed so far: with it `take_due` can skip later ones."""
        return self._sequence

    def cancel(self, key: Key) -> None:
        """Remove the timer of `key`, if any."""
        self._timers.pop(key, None)

    def clear(self) -> None:
        """Remove all timers."""
        self._timers.clear()
        self._heap.clear()

    @property
    def deadline_ms(self) -> int | None:
        """Time of the next action; None without any."""
        while self._heap:
            entry_ms, sequence, key = self._heap[0]
            timer = self._timers.get(key)
            if timer is None or timer.sequence != sequence:
                heapq.heappop(self._heap)
            elif timer.deadline_ms > entry_ms:
                heapq.heapreplace(self._heap, (timer.deadline_ms, sequence, key))
            else:
                return entry_ms
        return None

    def take_due(self, now_ms: int, armed: int) -> Action | None:
        """Remove the first due timer and return its action; None when that timer was armed later than `armed`."""
        deadline_ms = self.deadline_ms
        if deadline_ms is None or deadline_ms > now_ms or self._heap[0][1] > armed:
            return None
        _, _, key = heapq.heappop(self._heap)
        return self._timers.pop(key).action

    def _rebuild(self) -> None:
        self._heap = [(timer.deadline_ms, timer.sequence, key) for key, timer in self._timers.items()]
        heapq.heapify(self._heap)
