"""The newest records of a partition, in memory for all of its subscribers. Used on the loop's thread.

One reader fills a feed, whatever the number of subscribers, and none of them can stop it: the oldest records are
dropped when `bytes_max` is reached. A subscriber that still needs them reads them from the cluster (`history`).
"""

import asyncio
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple

ENTRY_BYTES: Final = 200
"""Memory of an entry besides its bytes."""
DROPPED_SHARE: Final = 8
"""A full feed drops an eighth of its bytes at a time, because the rest moves."""


class Entry(NamedTuple):
    """One record: its key for filters, and the text of its event without the id."""

    offset: int
    key: bytes | None
    event: bytes

    @property
    def size(self) -> int:
        """Bytes of memory."""
        return len(self.event) + len(self.key or b"") + ENTRY_BYTES


class Piece(NamedTuple):
    """Entries in their order, and the offset after the last record that was read for them."""

    entries: Sequence[Entry]
    next_offset: int


class Feed:
    """Records of one partition from `start` on; those before were dropped, or were older than the feed. `next` is the
    offset after the last record. `failure`: the error that ended it."""

    def __init__(self, start: int, bytes_max: int) -> None:
        self.start = self.next = start
        self.size = 0
        self.failure: Exception | None = None
        self.subscribers = 0
        self._bytes_max = bytes_max
        self._entries: list[Entry] = []
        self._offsets: list[int] = []
        self._waiting: dict[asyncio.Event, None] = {}

    def publish(self, entries: Sequence[Entry]) -> None:
        """Add records, drop old ones, and wake the subscribers that wait."""
        self._entries += entries
        self._offsets += [each.offset for each in entries]
        self.next = self._offsets[-1] + 1
        self.size += sum(each.size for each in entries)
        if self.size > self._bytes_max:
            self._drop()
        self.wake()

    def fail(self, error: Exception) -> None:
        """End the feed: its subscribers get the error once they have read all records."""
        self.failure = error
        self.wake()

    def wake(self) -> None:
        """Wake the subscribers that wait."""
        waiting, self._waiting = self._waiting, {}
        for event in waiting:
            event.set()

    def wake_later(self, event: asyncio.Event) -> None:
        """Set the event when the next records come, or the feed ends."""
        self._waiting[event] = None

    def forget(self, event: asyncio.Event) -> None:
        """Do not set the event any more."""
        self._waiting.pop(event, None)

    def read(self, offset: int, bytes_max: int) -> Piece | None:
        """Return records from `offset` on, at least one if there is one, and else at most `bytes_max` bytes of them.
        None means that the feed does not go back so far."""
        if offset < self.start:
            return None
        first = last = bisect_left(self._offsets, offset)
        size = 0
        while last < len(self._entries) and (last == first or size < bytes_max):
            size += len(self._entries[last].event)
            last += 1
        if first == last:
            return Piece((), max(offset, self.next))
        return Piece(self._entries[first:last], self._offsets[last - 1] + 1)

    def _drop(self) -> None:
        count, wanted = 0, self._bytes_max - self._bytes_max // DROPPED_SHARE
        while self.size > wanted and count < len(self._entries):
            self.size -= self._entries[count].size
            count += 1
        self.start = self._offsets[count - 1] + 1
        del self._entries[:count], self._offsets[:count]
