"""The queue of events. Virtual time is an integer of microseconds. Events of one instant run in the order in which they
were scheduled, so nothing depends on how a heap breaks ties."""

from collections.abc import Callable
from heapq import heappop, heappush
from struct import Struct
from typing import Any, Final

Callback = Callable[..., None]

STEP: Final = Struct("<QQ")


class Loop:
    """Event queue of a run. `events` counts the events that ran."""

    def __init__(self) -> None:
        self.now_us = 0
        self.events = 0
        self._queue: list[tuple[int, int, Callback, tuple[Any, ...]]] = []
        self._request_number = 0

    def at(self, time_us: int, callback: Callback, *arguments: Any) -> None:
        """Schedule a callback at `time_us`, or now when that has passed."""
        self._request_number += 1
        heappush(self._queue, (max(time_us, self.now_us), self._request_number, callback, arguments))

    def after(self, delay_us: int, callback: Callback, *arguments: Any) -> None:
        self._request_number = number = self._request_number + 1
        heappush(self._queue, (self.now_us + delay_us if delay_us > 0 else self.now_us, number, callback, arguments))

    def step(self, until_us: int) -> int:
        """Run the next event and return its number. Return -1, and advance time to `until_us`, when no event is before
        it."""
        queue = self._queue
        if not queue or queue[0][0] >= until_us:
            self.now_us = until_us
            return -1
        self.now_us, number, callback, arguments = heappop(queue)
        self.events += 1
        callback(*arguments)
        return number

    def run(self, until_us: int, note: Callable[[bytes], None], every: int, check: Callable[[], None]) -> None:
        """Run all events before `until_us`, and advance time to it. `note` gets the time and the number of each event
        after it. `check` is called after each `every` events."""
        queue, pack = self._queue, STEP.pack
        while queue and queue[0][0] < until_us:
            self.now_us, number, callback, arguments = heappop(queue)
            self.events += 1
            callback(*arguments)
            note(pack(self.now_us, number))
            if self.events % every == 0:
                check()
        self.now_us = until_us
