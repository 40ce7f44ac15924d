"""Last events of one replica, or of the partitions of one broker, in bounded memory.

The core reports events (`Ports.trace`), and the driver's clock gives their times. Successive commits are one entry, as
is any other event that is repeated. So a busy hour without an election leaves one entry, not a full ring.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final

from kraft.raft.events import Event
from kraft.recorder.entry import Entry, values_of
from kraft.recorder.words import COMMITS, FENCES, described

CAPACITY: Final = 4096
RESEND_MS: Final = 1000


class Ring:
    """Last `capacity` entries of one node. A `subject` is the object of an event: when the event is repeated for the
    same subject, its entry is extended, whatever happened to other subjects meanwhile."""

    def __init__(self, node_id: int, capacity: int = CAPACITY) -> None:
        self.node_id = node_id
        self._capacity = capacity
        self._number = 0
        self._entries: OrderedDict[int, Entry] = OrderedDict()
        self._last: dict[Hashable, int] = {}

    def note(self, time_ms: float, what: str, values: dict[str, Any], subject: Hashable = None, *,
             takes_over: bool = False) -> Entry:
        """Record an event; return its entry. The entry includes earlier events if the subject's last event was of the
        same kind. It must have had the same particulars, unless `takes_over` lets these replace them."""
        last = self._entries.get(self._last.get(subject, 0))
        if last is not None and last.what == what and (takes_over or last.values == values):
            again = Entry(last.time_ms, last.node_id, last.number, what, values, last.times + 1, time_ms)
            self._entries[last.number] = again
            return again
        self._number += 1
        entry = Entry(time_ms, self.node_id, self._number, what, values)
        self._entries[self._number] = entry
        if len(self._entries) > self._capacity:
            self._entries.popitem(last=False)
        self._last[subject] = self._number
        if len(self._last) > self._capacity:
            self._last = {each: number for each, number in self._last.items() if number in self._entries}
        return entry

    def unstored(self, time_ms: float, what: str, values: dict[str, Any]) -> Entry:
        """Return an entry of this life that is not stored."""
        return Entry(time_ms, self.node_id, self._number, what, values)

    def entries(self, count: int = CAPACITY) -> tuple[Entry, ...]:
        """Return the last `count` entries, oldest first."""
        return tuple(self._entries.values())[-count:] if count > 0 else ()


class Recorder(Ring):
    """Events of one replica of the metadata quorum. `sink` receives every new entry at once. It receives an entry that
    is extended again after a second, and when the repetition has ended."""

    def __init__(self, node_id: int, sink: Callable[[Entry], None] = lambda _entry: None, *,
                 capacity: int = CAPACITY) -> None:
        super().__init__(node_id, capacity)
        self._sink = sink
        self._sent_ms = 0.0
        self._unsent: Entry | None = None

    def record(self, now_ms: float, event: Event) -> None:
        """Record an event of the core."""
        what, particulars = described(event)
        self._add(now_ms, what, dict(particulars) if what == COMMITS else values_of(particulars))

    def record_fencing(self, now_ms: float, broker_id: int, because: str) -> None:
        """Record that the controller beside the core fenced a broker without its request."""
        self._add(now_ms, FENCES, {"broker": broker_id, "because": because})

    def _add(self, now_ms: float, what: str, values: dict[str, Any]) -> None:
        entry = self.note(now_ms, what, values, takes_over=what == COMMITS)
        if entry.times == 1:
            self.flush()
            self._send(entry, now_ms)
        elif now_ms - self._sent_ms >= RESEND_MS:
            self._send(entry, now_ms)
        else:
            self._unsent = entry

    def _send(self, entry: Entry, now_ms: float) -> None:
        self._unsent = None
        self._sent_ms = now_ms
        self._sink(entry)

    def flush(self) -> None:
        """Send the last entry to the sink, if it was extended since it was last sent."""
        if self._unsent is not None:
            self._send(self._unsent, self._unsent.until_ms)
