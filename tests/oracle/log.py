"""A log, slow and obvious: a list of batches without segments, files or indexes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OracleBatch:
    base: int
    last: int
    data: bytes                    # as stored in the log, header patched
    max_timestamp: int
    producer_id: int = -1
    transactional: bool = False
    marker: str = ""               # "commit", "abort" or "": a data batch


class OracleLog:
    """Model of a log's answers. The caller supplies the place and the bytes of each batch."""

    def __init__(self) -> None:
        self.batches: list[OracleBatch] = []
        self.start = 0
        self.end = 0
        self.high_watermark = 0

    def append(self, batch: OracleBatch) -> None:
        assert batch.base >= self.end
        self.batches.append(batch)
        self.end = batch.last + 1

    def truncate_to(self, offset: int) -> None:
        kept = [batch for batch in self.batches if batch.last < offset]
        if len(kept) < len(self.batches):
            # The cut is at the batch boundary below; offsets in a gap are cut only down to `offset`.
            cut = self.batches[len(kept)]
            self.end = min(offset, cut.base) if cut.base < offset else offset
            self.batches = kept
        else:
            self.end = min(self.end, offset)
        self.start = min(self.start, self.end)
        self.high_watermark = min(self.high_watermark, self.end)

    def truncate_fully(self, offset: int) -> None:
        self.batches = []
        self.start = self.end = self.high_watermark = offset

    def move_start(self, offset: int) -> None:
        self.start = max(self.start, offset)

    def visible(self, isolation: str) -> int:
        if isolation == "log_end":
            return self.end
        return self.high_watermark if isolation == "high_watermark" else self.last_stable()

    def transactions(self) -> list[tuple[int, int, int, str]]:
        """Return (producer id, first offset, marker offset or -1, outcome) of every transaction."""
        open_since: dict[int, int] = {}
        found = []
        for batch in self.batches:
            if batch.marker:
                if batch.producer_id in open_since:
                    found.append((batch.producer_id, open_since.pop(batch.producer_id), batch.base, batch.marker))
            elif batch.transactional:
                open_since.setdefault(batch.producer_id, batch.base)
        return found + [(producer, first, -1, "") for producer, first in open_since.items()]

    def last_stable(self) -> int:
        unstable = [first for _, first, end, _ in self.transactions() if end < 0 or end >= self.high_watermark]
        return max(self.start, min([self.high_watermark, *unstable]))

    def aborted(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """Return (producer id, first offset, marker offset), in the order of the markers."""
        return sorted(((producer, first, last) for producer, first, last, outcome in self.transactions()
                       if outcome == "abort" and last >= start and first < end), key=lambda found: found[2])

    def read_all(self, start: int, isolation: str) -> bytes:
        """Return every whole batch from the one that holds `start` to the limit."""
        limit = self.visible(isolation)
        return b"".join(batch.data for batch in self.batches if batch.last >= start and batch.last < limit)

    def first_at_or_after(self, timestamp: int) -> int | None:
        """Return the base offset of the first batch from the start on that has a record at or after this time."""
        for batch in self.batches:
            if batch.last >= self.start and batch.max_timestamp >= timestamp:
                return batch.base
        return None
