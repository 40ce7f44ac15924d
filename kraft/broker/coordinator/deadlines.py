"""Next deadline of many owners, each of which has one of its own that moves."""

from __future__ import annotations

import heapq
from typing import Protocol


class Owner(Protocol):
    """Object with a deadline."""

    @property
    def deadline_ms(self) -> int | None:
        """Present deadline; None without one."""


class Deadlines:
    """The first deadline of all owners, found without visiting each of them.

    `is_earlier` is set when a deadline before all others is noted. Nothing else makes the first deadline earlier, so a
    driver that resets it need not compare the first deadline after each call.

    An owner notes each deadline that it sets. A deadline that moves to a later time, or that is cancelled, need not be
    noted: its entry in the heap is corrected when it becomes the first.
    """

    __slots__ = ("_heap", "_noted", "_sequence", "is_earlier")

    def __init__(self) -> None:
        self.is_earlier = False
        self._heap: list[tuple[int, int, Owner]] = []
        self._noted: dict[Owner, int] = {}      # the earliest entry of each owner in the heap; others are leftovers
        self._sequence = 0

    def note(self, owner: Owner, deadline_ms: int) -> None:
        """Take into account that `owner` has this deadline, too."""
        noted = self._noted.get(owner)
        if noted is None or deadline_ms < noted:
            self._sequence += 1
            self._noted[owner] = deadline_ms
            heapq.heappush(self._heap, (deadline_ms, self._sequence, owner))
            self.is_earlier = self.is_earlier or self._heap[0][2] is owner

    @property
    def first_ms(self) -> int | None:
        """First deadline of all owners; None without any."""
        while self._heap:
            entry_ms, sequence, owner = self._heap[0]
            deadline_ms = owner.deadline_ms
            if self._noted.get(owner) != entry_ms:
                heapq.heappop(self._heap)
            elif deadline_ms is None:
                heapq.heappop(self._heap)
                del self._noted[owner]
            elif deadline_ms != entry_ms:
                self._noted[owner] = deadline_ms
                heapq.heapreplace(self._heap, (deadline_ms, sequence, owner))
            else:
                return entry_ms
        return None
