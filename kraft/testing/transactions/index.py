"""Places of all appends in the final logs, and the outcome of each transaction as the readers saw it."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Final

from kraft.testing.transactions.history import (
    INDEX_BITS,
    INDEX_MASK,
    History,
    Outcome,
    index_of,
    transaction_of,
)

MISSING: Final = -1


class Index:
    """Derived data of a history that several judges use.

    - `places`: for each transaction, the offset of each append in its partition's log, or `MISSING`. Of a record that
      is stored twice it is the first.
    - `repeated`: partition, offset and code of each record that is in the log again.
    - `unsent`: partition, offset and code of each record of the log that was not sent there.
    - `committed`: for each transaction, whether its records have to be visible. An unknown outcome is decided by the
      readers: one record seen with read_committed is enough.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self.places = [array("q", [MISSING]) * len(each.appends) for each in history.transactions]
        self.repeated: list[tuple[int, int, int]] = []
        self.unsent: list[tuple[int, int, int]] = []
        for partition in range(len(history.partitions)):
            self._find_places(partition)
        self.seen = self._seen()
        self.committed = [each.outcome is Outcome.COMMITTED or (each.outcome is Outcome.UNKNOWN and seen > 0)
                          for each, seen in zip(history.transactions, self.seen, strict=True)]
        self._visible: dict[int, tuple[array[int], array[int]]] = {}

    def place(self, code: int) -> int:
        return self.places[transaction_of(code)][index_of(code)]

    def visible(self, partition: int) -> tuple[array[int], array[int]]:
        """Return the offsets and codes that a reader with read_committed has to see of a partition."""
        if partition not in self._visible:
            log, committed, count = self.history.logs[partition], self.committed, len(self.committed)
            offsets, codes = array("q"), array("q")
            for offset, code in zip(log.offsets, log.codes, strict=True):
                if 0 <= (number := code >> INDEX_BITS) < count and committed[number]:
                    offsets.append(offset)
                    codes.append(code)
            self._visible[partition] = offsets, codes
        return self._visible[partition]

    def wanted(self, partition: int, start: int, end: int, *, committed: bool) -> tuple[array[int], array[int]]:
        """Return the offsets and codes that a reader has to see from `start` to `end`."""
        log = self.history.logs[partition]
        offsets, codes = self.visible(partition) if committed else (log.offsets, log.codes)
        first, last = bisect_left(offsets, start), bisect_left(offsets, end)
        return offsets[first:last], codes[first:last]

    def _find_places(self, partition: int) -> None:
        transactions, places = self.history.transactions, self.places
        count = len(transactions)
        log = self.history.logs[partition]
        for offset, code in zip(log.offsets, log.codes, strict=True):
            number, index = code >> INDEX_BITS, code & INDEX_MASK
            if not 0 <= number < count or index >= len(places[number]) \
                    or transactions[number].appends[index].partition != partition:
                self.unsent.append((partition, offset, code))
            elif places[number][index] != MISSING:
                self.repeated.append((partition, offset, code))
            else:
                places[number][index] = offset

    def _seen(self) -> list[int]:
        """Count, for each transaction, the records that readers with read_committed saw."""
        counts = [0] * len(self.history.transactions)
        for view in self.history.views:
            if view.committed:
                for code in view.codes:
                    if 0 <= (number := code >> INDEX_BITS) < len(counts):
                        counts[number] += 1
        return counts
