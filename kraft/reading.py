"""Iterating over a log: batches, records, Arrow record batches, and following its end.

One mixin serves the writer's `Log` and the `LogReader` of another process: it needs `read`, `aborted_transactions` and
the marks, and never holds more than one read's worth of bytes (`read_bytes`) besides what the caller keeps.

Isolation names what may be seen: "high_watermark" or "read_uncommitted" (what is committed to the log),
"read_committed" (of that, nothing of transactions that are still open or were aborted), "log_end" (everything that was
appended; only the owner's `Log` can).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from kraft_native.batch import Batch, walk
from kraft_native.buffer import Slice
from kraft_native.columns import DEFAULT_COLUMNS, ColumnReader
from kraft_native.errors import InvalidArgumentError, OffsetOutOfRangeError
from kraft_native.records import Record
from kraft_native.records import records as records_in

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
    """What the iterators need of a log."""

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


def visible_end(log: Readable, isolation: Isolation) -> int:
    """The offset after the last one that `isolation` may see now."""
    if isolation in ("high_watermark", "read_uncommitted"):
        return log.high_watermark
    if isolation == "read_committed":
        return log.last_stable_offset
    if isolation == "log_end":
        return log.log_end_offset
    raise InvalidArgumentError(f"isolation: {isolation!r} is not one of {', '.join(ISOLATIONS)}")


def is_aborted(batch: Batch, aborted: Aborted) -> bool:
    """Whether the batch has records of an aborted transaction: (producer id, first offset, marker's offset, ...)."""
    return batch.is_transactional and not batch.is_control and any(
        producer_id == batch.producer_id and first <= batch.base_offset <= last
        for producer_id, first, last, _ in aborted
    )


class Reading:
    """The iterators. Each runs from `start` (default: the log start) up to `end`, exclusive, and at most to what was
    visible when it began.

    They raise what `read` raises, at the offset where it happens: `OffsetOutOfRangeError` (also for a `start` below the
    log start or past the log end), `CorruptLogError` (go on with its `next_offset`). An iterator may be dropped at any
    time; what it yielded stays valid by itself.
    """

    def __iter__(self: Readable) -> Iterator[Record]:
        """Every visible record from the log start on: `records()`."""
        return Reading.records(self)

    def get(self: Readable, offset: int, *, isolation: Isolation = "high_watermark") -> Record | None:
        """The record at an offset; None where the log has none: it was compacted away, is a transaction's marker, or
        hidden by `isolation`. `OffsetOutOfRangeError` below the log start, and at or past what is visible."""
        end = visible_end(self, isolation)
        if not self.log_start_offset <= offset < end:
            raise OffsetOutOfRangeError(f"offset {offset}: offsets {self.log_start_offset} to {end - 1} are visible")
        return next(Reading.records(self, offset, offset + 1, isolation=isolation, read_bytes=0), None)

    def _slices(self: Readable, start: int | None, end: int | None, isolation: Isolation,
                read_bytes: int) -> Iterator[tuple[Slice, int, int]]:
        """(bytes of whole batches, first wanted offset, end of what is wanted)."""
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
                return  # the limit lies inside of a batch, which is not visible then
            offset = piece.next_offset

    def batches(self: Readable, start: int | None = None, end: int | None = None, *,
                isolation: Isolation = "high_watermark", read_bytes: int = READ_BYTES) -> Iterator[Batch]:
        """Whole batches, as they are stored; the first may begin before `start`, the last end after `end`.

        With `isolation="read_committed"` batches of aborted transactions are left out; markers are not.
        """
        for piece, offset, limit in Reading._slices(self, start, end, isolation, read_bytes):
            for batch in batches_in(self, offset, piece, isolation):
                if batch.base_offset >= limit:
                    return
                yield batch

    def records(self: Readable, start: int | None = None, end: int | None = None, *,
                isolation: Isolation = "high_watermark", control: bool = False,
                read_bytes: int = READ_BYTES) -> Iterator[Record]:
        """Single records; those of control batches only with `control`. For bulk work `arrow` is much faster."""
        for piece, offset, limit in Reading._slices(self, start, end, isolation, read_bytes):
            aborted = _aborted_in(self, offset, piece, isolation)
            for source in _without_aborted(piece, aborted):
                for record in records_in(source, check_crc=False, control=control):
                    if record.offset >= limit:
                        return
                    if record.offset >= offset:
                        yield record

    def arrow(self: Readable, start: int | None = None, end: int | None = None, *,
              isolation: Isolation = "high_watermark", columns: Sequence[str] = DEFAULT_COLUMNS,
              read_bytes: int = ARROW_READ_BYTES) -> Iterator[pa.RecordBatch]:
        """Arrow record batches of about `read_bytes` of stored bytes (compressed ones become larger). Needs pyarrow.

        `columns`: some of offset, timestamp, timestamp_type, leader_epoch, key, value, headers.
        """
        import pyarrow as pa

        reader = ColumnReader(columns, check_crc=False)
        for piece, offset, limit in Reading._slices(self, start, end, isolation, read_bytes):
            aborted = _aborted_in(self, offset, piece, isolation)
            position = 0
            while position < len(piece) and offset < limit:
                found = reader.read(piece, position=position, start_offset=offset, end_offset=limit, aborted=aborted)
                if len(found):
                    yield pa.record_batch(found)
                if (found.next_position, found.next_offset) == (position, offset):
                    break  # the limit lies in a gap that compaction left
                position, offset = found.next_position, found.next_offset


def _aborted_in(log: Readable, offset: int, piece: Slice, isolation: Isolation) -> Aborted:
    return log.aborted_transactions(offset, piece.next_offset) if isolation == "read_committed" else ()


def batches_in(log: Readable, offset: int, piece: Slice, isolation: Isolation) -> Iterator[Batch]:
    """The batches of a piece that was read at `offset`, without those that `isolation` hides."""
    aborted = _aborted_in(log, offset, piece, isolation)
    return (batch for batch in walk(piece, check_crc=False) if not is_aborted(batch, aborted))


class Place:
    """Where a follower stands, and what it was given last: so it notices when that was cut off while it slept, also
    when the log has grown past its place again."""

    def __init__(self, log: Readable, start: int | None, last: Identity | None = None):
        """`last`: the batch that was given last, where that was in an earlier life."""
        self.offset = log.log_start_offset if start is None else start
        self._generation = log.truncation_generation if last is None else NO_GENERATION
        self._last = last

    def read(self, log: Readable, max_bytes: int, isolation: Isolation) -> Slice:
        """What comes next. Raises what `read` raises, and `OffsetOutOfRangeError` when what came before is gone."""
        while True:
            generation = log.truncation_generation
            settled = generation == self._generation or self._look_back(log, isolation)
            piece = log.read(self.offset, max_bytes, isolation)
            if log.truncation_generation == generation:
                if settled:
                    self._generation = generation
                return piece

    def batches(self, log: Readable, piece: Slice, isolation: Isolation) -> Iterator[Batch]:
        """The batches of the piece that was read last, without those that `isolation` hides."""
        aborted = _aborted_in(log, self.offset, piece, isolation)
        batch = None
        for batch in walk(piece, check_crc=False):
            if not is_aborted(batch, aborted):
                yield batch
        self.offset = piece.next_offset
        if batch is not None:
            self._last = identity_of(batch)

    def _look_back(self, log: Readable, isolation: Isolation) -> bool:
        """After a truncation: whether what was given last is still there. False: that cannot be seen yet."""
        if self._last is None or self._last[1] < log.log_start_offset:
            return True
        piece = log.read(max(self._last[0], log.log_start_offset), 0, isolation)
        found = next(iter(walk(piece, check_crc=False)), None)
        if found is not None and identity_of(found) != self._last:
            raise OffsetOutOfRangeError(f"offset {self.offset}: the log was truncated below it, and other records have "
                                        "taken the place of some that were read")
        return found is not None


def identity_of(batch: Batch) -> Identity:
    """What tells a batch from another one at its place: base and last offset, leader epoch, CRC."""
    return batch.base_offset, batch.last_offset, batch.leader_epoch, batch.crc


def _without_aborted(piece: Slice, aborted: Aborted) -> Iterable[Slice | Batch]:
    """The whole piece when nothing in it was aborted, else its other batches one by one."""
    if not aborted:
        return (piece,)
    return (batch for batch in walk(piece, check_crc=False) if not is_aborted(batch, aborted))
