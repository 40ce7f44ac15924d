"""Bounded queue of audit events on their way to one place. No request ever waits for it."""

from collections import deque
from collections.abc import Callable

from kraft.security.audit.event import Event


class EventQueue:
    """Queue from the loop's thread to whatever writes. `make_loss` returns the event that so many were discarded.

    `put` and `report_loss` are for the loop's thread, `take` is for any one thread.
    """

    def __init__(self, count_max: int, make_loss: Callable[[int], Event]) -> None:
        self.dropped = 0
        """Events that were discarded since the start."""
        self._count_max = count_max
        self._make_loss = make_loss
        self._events: deque[Event] = deque()
        self._unreported = 0

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: Event) -> None:
        """Append an event, or discard it when the queue is full. The first one after a gap follows an event that
        reports the gap."""
        if len(self._events) >= self._count_max:
            self.lose(1)
            return
        self.report_loss()
        self._events.append(event)

    def lose(self, count: int) -> None:
        """Count events that were discarded here or could not be written."""
        self.dropped += count
        self._unreported += count

    def report_loss(self) -> None:
        """Append the event that others were discarded, if some were and there is room."""
        if self._unreported and len(self._events) < self._count_max:
            self._events.append(self._make_loss(self._unreported))
            self._unreported = 0

    def take(self, count_max: int) -> list[Event]:
        """Remove and return the oldest events."""
        found: list[Event] = []
        while self._events and len(found) < count_max:
            found.append(self._events.popleft())
        return found
