"""The last things that happened to one replica, in bounded memory.

The core tells what happens (`Ports.trace`), the driver's clock says when. Commits that follow each other are one entry,
as is anything else that repeats itself: a busy hour without an election leaves one entry, not a ring full.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from kraft.raft.ports import Event
from kraft.recorder.entry import Entry, values_of

CAPACITY: Final = 4096
TOLD_AGAIN_MS: Final = 1000


class Recorder:
    """`sink` gets every new entry at once, and one that goes on again after a second and when it has ended."""

    def __init__(self, node_id: int, sink: Callable[[Entry], None] = lambda _entry: None, *,
                 capacity: int = CAPACITY) -> None:
        self.node_id = node_id
        self._sink = sink
        self._entries: deque[Entry] = deque(maxlen=capacity)
        self._number = 0
        self._told_ms = 0.0
        self._is_told = True

    def record(self, event: Event, time_ms: float | None = None) -> None:
        """Something happened, at the core's time or at another one."""
        now_ms = event.now_ms if time_ms is None else time_ms
        last = self._entries[-1] if self._entries else None
        is_commit = event.what == "commits"     # by far the most
        values = dict(event.values) if is_commit else values_of(event)
        if last is not None and last.what == event.what and (is_commit or last.values == values):
            self._entries[-1] = Entry(
                last.time_ms, last.node_id, last.number, last.what, values, last.times + 1, now_ms)
            self._is_told = False
            if now_ms - self._told_ms >= TOLD_AGAIN_MS:
                self._tell(now_ms)
            return
        self.tell()
        self._number += 1
        self._entries.append(Entry(now_ms, self.node_id, self._number, event.what, values))
        self._tell(now_ms)

    def _tell(self, now_ms: float) -> None:
        self._is_told = True
        self._told_ms = now_ms
        self._sink(self._entries[-1])

    def tell(self) -> None:
        """Gives the sink the last entry if it went on since it was told."""
        if not self._is_told:
            self._tell(self._entries[-1].until_ms)

    def made(self, time_ms: float, what: str, values: dict[str, object]) -> Entry:
        """An entry of this life that is not kept."""
        return Entry(time_ms, self.node_id, self._number, what, values)

    def entries(self, count: int = CAPACITY) -> tuple[Entry, ...]:
        """The last of them, oldest first."""
        return tuple(self._entries)[-count:] if count > 0 else ()
