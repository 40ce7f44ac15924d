"""Iterators over a log: batches, records, Arrow record batches, and following the end of the log.

One mixin serves the writer's `Log` and the `LogReader` of another process. It needs `read`, `aborted_transactions` and
the marks. Besides what the caller keeps, it holds at most the bytes of one read (`read_bytes`).

The isolation says which records are visible:

- "high_watermark" or "read_uncommitted": everything below the high watermark;
- "read_committed": the same without records of open or aborted transactions;
- "log_end": everything that was appended; only the owner's `Log` supports it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from kraft_native.base.errors import InvalidArgumentError, OffsetOutOfRangeError
from kraft_native.base.extras import extra_module
from kraft_native.batch.batch import Batch, walk
from kraft_native.batch.finder import RecordFinder
from kraft_native.batch.records import Record
from kraft_native.batch.records import records as records_in
from kraft_native.file.buffer import Slice

if TYPE_CHECKING:
    import pyarrow as pa

READ_BYTES = 1 << 20
ARROW_READ_BYTES = 4 << 20

Isolation: TypeAlias = Literal["log_end", "high_watermark", "read_uncommitted", "read_committed"]
ISOLATIONS: tuple[Isolation, ...] = ("log_end", "high_watermark", "read_uncommitted", "read_committed")

Identity: TypeAlias = tuple[int, int, int, int]
NO_GENERATION = -1
Aborted: TypeAlias = Sequence[tuple[int, int, int, int]]


class Readable(Protocol):
    """The members of a log that the iterators need."""

    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def last_stable_offset(self) -> int: ...
    @property
    def truncation_generation(self) -> int: ...
    def read(self, offset: int, max_bytes: int = ..., isolation: Isolation = ...) -> Slice: ...
    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[tuple[int, int, int, int]]: ...
    @property
    def _finder(self) -> RecordFinder: ...


def visible_end(log: Readable, isolation: Isolation) -> int:
    """Return the end (exclusive) of the offsets that are visible under `isolation` now."""
    if isolation in ("high_watermark", "read_uncommitted"):
        return log.high_watermark
    if isolation == "read_committed":
        return log.last_stable_offset
    if isolation == "log_end":
        return log.log_end_offset
    raise InvalidArgumentError(f"isolation: {isolation!r} is not one of {', '.join(ISOLATIONS)}")


def is_aborted(batch: Batch, aborted: Aborted) -> bool:
    """Return whether the batch has records of one of the aborted transactions. Each of these is (producer id, first
    offset, marker's offset, ...)."""
    return batch.is_transactional and not batch.is_control and any(
        producer_id == batch.producer_id and first <= batch.base_offset <= last
        for producer_id, first, last, _ in aborted
    )


class Reading:
    """The iterators. Each runs from `start` (default: the log start) to `end` (exclusive), and at most to the end that
    was visible when it began.

    They raise what `read` raises, at the offset where it happens. `OffsetOutOfRangeError` is raised for a `start` below
    the log start or past the log end, too; after `CorruptLogError` continue at its `next_offset`. An iterator may be
    dropped at any time; what it yielded stays valid.
    """

    def __iter__(self: Readable) -> Iterator[Record]:
        """Yield every visible record from the log start on, as `records()` does."""
        return Reading.records(self)

    def get(self: Readable, offset: int, *, isolation: Isolation = "high_watermark") -> Record | None:
        """Return the record at an offset. None means that compaction removed it, that it is a transaction marker, or
        that `isolation` hides it. Raises `OffsetOutOfRangeError` below the log start and from the visible end on."""
        end = visible_end(self, isolation)
        if not self.log_start_offset <= offset < end:
            raise OffsetOutOfRangeError(f"offset {offset}: offsets {self.log_start_offset} to {end - 1} are visible")
        piece = self.read(offset, 0, isolation)
        for source in _without_aborted(piece, _aborted_in(self, offset, piece, isolation)):
            if (found := self._finder.find(source, offset)) is not None:
                return found
        return None

    @cached_property
    def _finder(self) -> RecordFinder:
        """Return what `get` remembers of the batches that it used last."""
        return RecordFinder()

    def _slices(self: Readable, start: int | None, end: int | None, isolation: Isolation,
                read_bytes: int) -> Iterator[tuple[Slice, int, int]]:
        """Yield (bytes of whole batches, first wanted offset, end of the wanted offsets)."""
        offset = self.log_start_offset if start is None else start
        limit = visible_end(self, isolation)
        if start is not None and not self.log_start_offset <= start <= self.log_end_offset:
            raise OffsetOutOfRangeError(f"offset {start} is not in {self.log_start_offset} to {self.log_end_offset}")
        if end is not None:
            limit = min(limit, end)
        while offset < limit:
            piece = self.read(offset, read_bytes, isolation)
            if len(piece):
                yield piece, offset, limit
            elif piece.next_offset <= offset:
                return  # the limit lies inside a batch, which is therefore not visible
            offset = piece.next_offset

    def batches(self: Readable, start: int | None = None, end: int | None = None, *,
                isolation: Isolation = "high_watermark", read_bytes: int = READ_BYTES) -> Iterator[Batch]:
        """Yield whole batches as they are stored. The first may begin before `start`, the last may end after `end`.

        With `isolation="read_committed"` batches of aborted transactions are omitted, markers are not.
        """
        for piece, offset, limit in Reading._slices(self, start, end, isolation, read_bytes):
            for batch in batches_in(self, offset, piece, isolation):
                if batch.base_offset >= limit:
                    return
                yield batch

    def records(self: Readable, start: int | None = None, end: int | None = None, *,
                isolation: Isolation = "high_watermark", control: bool = False,
                read_bytes: int = READ_BYTES) -> Iterator[Record]:
        """Yield single records, those of control batches only with `control`. For bulk work `arrow` is much faster."""
        for piece, offset, limit in Reading._slices(self, start, end, isolation, read_bytes):
            aborted = _aborted_in(self, offset, piece, isolation)
            for source in _without_aborted(piece, aborted):
                for record in records_in(source, check_crc=False, control=control, first_offset=offset):
                    if record.offset >= limit:
                        return
                    yield record

    def arrow(self: Readable, start: int | None = None, end: int | None = None, *,
              isolation: Isolation = "high_watermark", columns: Sequence[str] | None = None,
              read_bytes: int = ARROW_READ_BYTES) -> Iterator[pa.RecordBatch]:
        """Yield Arrow record batches of about `read_bytes` stored bytes each, before decompression. Needs pyarrow.

        `columns` is a selection of offset, timestamp, timestamp_type, leader_epoch, key, value, headers; by default
        offset, timestamp, key, value, headers.
        """
        # Imported here: a node, and a program that reads records only, start without it.
        from kraft_native.columns.reader import DEFAULT_COLUMNS, ColumnReader
        arrow = extra_module("pyarrow", "arrow")
        reader = ColumnReader(DEFAULT_COLUMNS if columns is None else columns, check_crc=False)
        for piece, offset, limit in Reading._slices(self, start, end, isolation, read_bytes):
            aborted = _aborted_in(self, offset, piece, isolation)
            position = 0
            while position < len(piece) and offset < limit:
                found = reader.read(piece, position=position, start_offset=offset, end_offset=limit, aborted=aborted)
                if len(found):
                    yield arrow.record_batch(found)
                if (found.next_position, found.next_offset) == (position, offset):
                    break  # the limit lies in a gap that compaction left
                position, offset = found.next_position, found.next_offset


def _aborted_in(log: Readable, offset: int, piece: Slice, isolation: Isolation) -> Aborted:
    return log.aborted_transactions(offset, piece.next_offset) if isolation == "read_committed" else ()


def batches_in(log: Readable, offset: int, piece: Slice, isolation: Isolation) -> Iterator[Batch]:
    """Return the batches of a piece that was read at `offset`, without those that `isolation` hides."""
    aborted = _aborted_in(log, offset, piece, isolation)
    return (batch for batch in walk(piece, check_crc=False) if not is_aborted(batch, aborted))


class Place:
    """Position of a follower and the identity of the last batch that it received. The identity reveals a truncation of
    that batch while the follower slept, even if the log has since grown past the position."""

    def __init__(self, log: Readable, start: int | None, last: Identity | None = None):
        """`last` is the batch that an earlier process received last."""
        self.offset = log.log_start_offset if start is None else start
        self._generation = log.truncation_generation if last is None else NO_GENERATION
        self._last = last

    def read(self, log: Readable, max_bytes: int, isolation: Isolation) -> Slice:
        """Read the next piece. Raises what `read` raises, and `OffsetOutOfRangeError` when the last batch before it was
        truncated."""
        while True:
            generation = log.truncation_generation
            settled = generation == self._generation or self._refresh(log, isolation)
            piece = log.read(self.offset, max_bytes, isolation)
            if log.truncation_generation == generation:
                if settled:
                    self._generation = generation
                return piece

    def batches(self, log: Readable, piece: Slice, isolation: Isolation) -> Iterator[Batch]:
        """Yield the batches of the piece that was read last, without those that `isolation` hides."""
        aborted = _aborted_in(log, self.offset, piece, isolation)
        batch = None
        for batch in walk(piece, check_crc=False):
            if not is_aborted(batch, aborted):
                yield batch
        self.offset = piece.next_offset
        if batch is not None:
            self._last = identity_of(batch)

    def _refresh(self, log: Readable, isolation: Isolation) -> bool:
        """Check after a truncation that the log still holds the last batch. False means that this is not visible yet.
        Raises `OffsetOutOfRangeError` when other records have replaced it."""
        if self._last is None or self._last[1] < log.log_start_offset:
            return True
        piece = log.read(max(self._last[0], log.log_start_offset), 0, isolation)
        found = next(iter(walk(piece, check_crc=False)), None)
        if found is not None and identity_of(found) != self._last:
            raise OffsetOutOfRangeError(f"offset {self.offset}: the log was truncated below it, and other records have "
                                        "taken the place of some that were read")
        return found is not None


def identity_of(batch: Batch) -> Identity:
    """Return what distinguishes a batch from another one at the same offset: base and last offset, leader epoch, CRC.
    """
    return batch.base_offset, batch.last_offset, batch.leader_epoch, batch.crc


def _without_aborted(piece: Slice, aborted: Aborted) -> Iterable[Slice | Batch]:
    """Return the whole piece when none of it was aborted, else its remaining batches one by one."""
    if not aborted:
        return (piece,)
    return (batch for batch in walk(piece, check_crc=False) if not is_aborted(batch, aborted))
