"""Reading a log from another process than its owner's, while the owner appends, rolls, truncates, deletes and compacts.

    with LogReader(directory) as reader:
        piece = reader.read(reader.log_start_offset)
        reader.wait(reader.log_end_offset)

The reader only reads. Nothing in the directory changes by it except the word in `kraft.live` that requests a wake-up.
That page states what is visible. Each answer is derived from one state of the page and from bytes copied out of the
files. It is discarded and computed again when the owner truncated or replaced files meanwhile: the two generations in
the page change before the files do.

Without an owner (the log was closed, its owner died, or Kafka wrote it) the reader runs the same code
as opening the log does, and answers like that log. Reads of lost or damaged data are refused with file, position and
offsets; a torn end is invisible; indexes and epochs are checked. But nothing is written, and files are read into
memory, two segments at most, not mapped. When an owner opens the log, the reader follows it. Another writer without a
live page, such as a running Kafka, is not noticed.
"""

import errno
import os
from bisect import bisect_right

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport INT64_MAX, int64_t, uint32_t

from kraft_native.base.span cimport Span
from kraft_native.batch.batch cimport (
    LOOK_OK, BatchHeader, batch_bytes, batch_is_log_append_time, batch_look,
)
from kraft_native.batch.codecs cimport DecompressLimits, decompress_limits_default
from kraft_native.batch.records cimport RecordView, record_next, records_of
from kraft_native.facade.log cimport view_log
from kraft_native.file.buffer cimport Scratch, Slice, slice_bytes
from kraft_native.log.core cimport ISOLATION_HIGH_WATERMARK, ISOLATION_LAST_STABLE
from kraft_native.log.foreign cimport ForeignSegment, foreign_open
from kraft_native.log.lookup cimport aborted_between, find_time, read_from
from kraft_native.log.marks cimport LogMarks, read_marks

from kraft_native.base.errors import (
    CorruptLogError, CorruptRecordError, InvalidArgumentError, KraftError, LogClosedError, OffsetOutOfRangeError,
    StorageError, WrongThreadError,
)
from kraft_native.segment.checkpoints import SharedOffsets
from kraft_native.segment.txn_index import TransactionIndex

cdef enum:
    SEGMENTS_OPEN_MAX = 8
    BASE_DIGITS = 20

cdef dict COMMITTED = {"high_watermark": False, "read_uncommitted": False, "read_committed": True}
# Longest sleep of a reader before it checks again whether a truncation has ended.
cdef int64_t SETTLE_NS = 50_000_000


cdef bint is_committed(object isolation) except -1:
    committed = COMMITTED.get(isolation)
    if committed is None:
        raise InvalidArgumentError(f"isolation: {isolation!r} is not one of {', '.join(COMMITTED)}")
    return committed


cdef list numbered_files(bytes directory, bytes suffix):
    """Offsets in the names of a directory's files of one kind, ascending."""
    return sorted(int(name[:BASE_DIGITS]) for name in os.listdir(directory)
                  if len(name) == BASE_DIGITS + len(suffix) and name.endswith(suffix) and name[:BASE_DIGITS].isdigit())


cdef class LogReader:
    """Reader attached to the log in `directory`, which must exist. One thread at a time (WrongThreadError).

    Isolations are "high_watermark" (or "read_uncommitted", the same) and "read_committed". `cleanup_policy` is the
    log's, as in `LogConfig`. It matters only where no owner with this engine recorded how far offsets may be missing:
    with "delete" missing ones are a loss there. `shared`: the `SharedOffsets` of a pass over several logs of one
    directory, for attaching.
    """

    def __cinit__(self, directory: FilePath, *, cleanup_policy: str = "delete", shared: SharedOffsets | None = None):
        self.path = os.fsencode(directory)
        # No producer expires here: a reader keeps every open transaction.
        self.config = LogConfig(cleanup_policy=cleanup_policy, producer_id_expiration_ms=INT64_MAX)
        self.open_segments = {}
        self.bases = []
        self.records = Scratch()
        self.listed_active = -1
        self.enter()
        try:
            if not self.attach():
                self.take_disk_state(shared)
        finally:
            self.busy = False

    def close(self) -> None:
        """Release all files. Slices stay valid. Idempotent."""
        if self.busy:
            raise WrongThreadError("another thread is reading from this reader")
        self.closed = True
        self.drop_segments()
        self.view = None

    def __enter__(self) -> LogReader:
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    cdef int enter(self) except -1:
        if self.closed:
            raise LogClosedError(f"{os.fsdecode(self.path)}: this reader was closed")
        if self.busy:
            raise WrongThreadError("another thread is reading from this reader")
        self.busy = True
        return 0

    # --- what is visible --------------------------------------------------------------------------------------------

    cdef bint attach(self) except -1:
        """Switch to the live page when its owner is alive."""
        if self.view is None:
            try:
                self.view = LiveView(self.path)
            except FileNotFoundError:
                return False
            self.incarnation = self.view.incarnation()
        if not self.view.owner_lives():
            return False
        self.live = True
        return self.take_page_state()

    cdef int refresh(self) except -1:
        """Bring `state` up to date."""
        if self.live:
            if not self.take_page_state():
                self.take_disk_state()
        elif self.changed():
            self.drop_segments()
            if not self.attach():
                self.take_disk_state()
        return 0

    cdef bint take_page_state(self) except -1:
        """Copy the page once the owner is not truncating. Return False when it died while truncating."""
        cdef uint32_t seen = 0
        cdef bint requested = False
        while True:
            if self.view.read_state(&self.state) < 0:
                break
            if not self.state.truncation_generation & 1:
                return True
            if not requested:
                requested = True
                seen = self.view.wake_word()
                self.view.request_wake()
                continue
            requested = False
            with nogil:
                self.view.sleep(seen, SETTLE_NS)
            PyErr_CheckSignals()
            if not self.view.owner_lives():
                break
        self.live = False
        self.drop_segments()
        return False

    cdef int take_disk_state(self, object shared=None) except -1:
        """Find what opening the log would find; if an owner appears meanwhile, follow that."""
        cdef list report = []
        failure = StorageError(os.fsdecode(self.path), errno.EROFS, "a reader does not write")
        while True:
            if self.view is not None:
                self.incarnation = self.view.incarnation()
            self.drop_segments()
            try:
                self.unowned = view_log(os.path.abspath(self.path), self.config, failure, report, shared)
            except (KraftError, OSError):
                if not self.changed():
                    raise
                if self.live:
                    return 0
                shared = None          # an owner that came and ended has written others
                continue
            self.report = report.pop()
            self.state.log_start = self.unowned.log_start
            self.state.log_end = self.state.high_watermark = self.unowned.log_end
            self.state.last_stable_offset = self.unowned.last_stable_offset()
            if not self.changed() or self.attach():
                return 0
            shared = None

    cdef bint changed(self) except -1:
        """Return whether the data read may be wrong by now, because of an owner's change or a new owner."""
        if self.live:
            return self.view.changed_since(&self.state)
        if self.view is None:
            return self.attach()
        return self.view.incarnation() != self.incarnation

    cdef int64_t limit(self, bint committed) except -1:
        if not committed:
            return self.state.high_watermark
        return self.state.last_stable_offset

    # --- segments ---------------------------------------------------------------------------------------------------

    cdef int need_segments(self) except -1:
        """List the segments, and open them again after the owner changed files."""
        if self.live and (self.listed_truncation != self.state.truncation_generation
                          or self.listed_segments != self.state.segments_generation
                          or self.listed_active != self.state.active_base):
            self.drop_segments()
            self.list_segments()
        return 0

    cdef int list_segments(self) except -1:
        self.listed_truncation = self.state.truncation_generation
        self.listed_segments = self.state.segments_generation
        self.listed_active = self.state.active_base
        bases = numbered_files(self.path, b".log")
        # A segment after the active one is being created and not published yet.
        self.bases = bases[:bisect_right(bases, self.listed_active)]
        return 0

    cdef int drop_segments(self) except -1:
        self.open_segments.clear()
        self.bases = []
        if self.unowned is not None:
            self.unowned.release()
            self.unowned = None
        self.listed_active = -2
        return 0

    cdef ForeignSegment segment(self, Py_ssize_t slot):
        cdef ForeignSegment segment = self.open_segments.get(self.bases[slot])
        if segment is None:
            if len(self.open_segments) >= SEGMENTS_OPEN_MAX:
                del self.open_segments[next(iter(self.open_segments))]
            segment = foreign_open(self.path, self.bases[slot],
                                   self.bases[slot + 1] if slot + 1 < len(self.bases) else -1)
            self.open_segments[segment.base_offset] = segment
        return segment

    cdef int64_t end_of(self, ForeignSegment segment) noexcept:
        """End of the whole batches. The active file may be longer: its owner writes there."""
        return self.state.active_bytes if segment.base_offset == self.state.active_base else segment.file_bytes

    # --- reading ----------------------------------------------------------------------------------------------------

    cdef Slice read_once(self, int64_t offset, int64_t max_bytes, bint committed):
        cdef int64_t limit = self.limit(committed)
        cdef ForeignSegment segment = None
        cdef Slice piece
        cdef Py_ssize_t slot
        if not self.live:
            return read_from(self.unowned, offset, max_bytes,
                             ISOLATION_LAST_STABLE if committed else ISOLATION_HIGH_WATERMARK)
        if offset < self.state.log_start or offset > self.state.log_end:
            raise OffsetOutOfRangeError(f"offset {offset} is outside of {self.state.log_start} to "
                                        f"{self.state.log_end} (log start to log end)")
        if self.bases and offset < <int64_t>self.bases[0]:
            raise OffsetOutOfRangeError(f"offset {offset} is deleted; the log starts at {self.bases[0]}")
        if offset < limit:
            for slot in range(max(bisect_right(self.bases, offset) - 1, 0), len(self.bases)):
                segment = self.segment(slot)
                piece = segment.read(offset, max_bytes, limit, self.end_of(segment), self.state.log_end)
                if piece is not None:
                    if piece.size > 0 and piece.first_offset > offset:
                        self.allow_gap(segment, offset, piece.first_offset)
                    return piece
            self.allow_gap(segment, offset, limit)
            offset = limit  # the offsets in between are compacted away
        piece = slice_bytes(b"")
        piece.next_offset = offset
        return piece

    cdef int allow_gap(self, ForeignSegment segment, int64_t offset, int64_t next_offset) except -1:
        """Raise CorruptLogError when offsets from `offset` to `next_offset` are missing because they were lost. The
        owner records what compaction may remove before it is removed, so its records are read only when something is
        missing."""
        cdef LogMarks marks = read_marks(os.path.abspath(self.path), -1, -1, False, False, self.config.compact,
                                         SharedOffsets())
        cdef int64_t first, end, lost = -1
        for first, end in marks.lost:
            if first < next_offset and offset < end:
                lost = max(first, offset)
                break
        if next_offset > marks.gaps_end or lost >= 0:
            raise CorruptLogError(os.fsdecode(self.path if segment is None else segment.path),
                                  0 if segment is None else self.end_of(segment), max(offset, lost), next_offset,
                                  "no batch has these offsets")
        return 0

    def read(self, int64_t offset, int64_t max_bytes=1 << 20, isolation: str = "high_watermark") -> Slice:
        """Return whole batches of one segment from the one that holds `offset`; the first whatever `max_bytes`.

        The bytes are the slice's own and their CRCs are right. At or past the limit of `isolation` the slice is empty.
        OffsetOutOfRangeError outside of [log start, log end]. CorruptLogError when the first batch to read is damaged.
        Waits while the owner truncates.
        """
        cdef bint committed = is_committed(isolation)
        cdef Slice piece
        if max_bytes < 0 or max_bytes > 0x7FFFFFFF:
            raise InvalidArgumentError(f"max_bytes: {max_bytes}; 0 to 2147483647 are allowed")
        self.enter()
        try:
            while True:
                self.refresh()
                try:
                    self.need_segments()
                    piece = self.read_once(offset, max_bytes, committed)
                except (KraftError, OSError):
                    if not self.changed():
                        raise
                else:
                    if not self.changed():
                        return piece
                PyErr_CheckSignals()
        finally:
            self.busy = False

    def aborted_transactions(self, int64_t start_offset, int64_t end_offset) -> list[tuple[int, int, int, int]]:
        """Transactions that overlap [start_offset, end_offset), as (producer id, first offset, last offset, last stable
        offset): what a read_committed consumer of that range must skip."""
        self.enter()
        try:
            while True:
                self.refresh()
                found = []
                try:
                    self.need_segments()
                    if not self.live:
                        found = aborted_between(self.unowned, start_offset, end_offset)
                    for slot in range(max(bisect_right(self.bases, start_offset) - 1, 0), len(self.bases)):
                        base = self.bases[slot]
                        index = TransactionIndex(self.path + b"/%020d.txnindex" % base, base)
                        if index.collect(start_offset, end_offset, found):
                            break
                except (KraftError, OSError):
                    if not self.changed():
                        raise
                else:
                    if not self.changed():
                        return found
                PyErr_CheckSignals()
        finally:
            self.busy = False

    # --- times ------------------------------------------------------------------------------------------------------

    def offset_for_time(self, int64_t timestamp_ms, isolation: str = "high_watermark") -> tuple[int, int, int] | None:
        """(offset, timestamp, leader epoch) of the first record with that time or a later one, within the limit of
        `isolation`; None when no such record exists. The search uses the time indexes where they are sound."""
        cdef Slice piece
        cdef int64_t offset
        cdef bint committed = is_committed(isolation)
        while True:
            answered, found = self.time_without_owner(timestamp_ms, committed)
            if answered:
                return found
            try:
                offset = self.time_hint(timestamp_ms)
                while True:
                    piece = self.read(offset, 1 << 20, isolation)
                    if piece.size == 0 and piece.next_offset <= offset:
                        return None
                    found = self.find_in_slice(piece, timestamp_ms)
                    if found is not None:
                        return found
                    offset = piece.next_offset
            except OffsetOutOfRangeError:
                # Retention or a truncation overtook the search: begin again.
                PyErr_CheckSignals()

    cdef tuple time_without_owner(self, int64_t timestamp_ms, bint committed):
        """(True, the result of `offset_for_time`), or (False, None) while an owner exists."""
        self.enter()
        try:
            while True:
                self.refresh()
                if self.live:
                    return False, None
                try:
                    found = find_time(self.unowned, timestamp_ms, self.unowned.log_start)
                except (KraftError, OSError):
                    if not self.changed():
                        raise
                else:
                    if not self.changed():
                        return True, None if found is None or found[0] >= self.limit(committed) else found
                PyErr_CheckSignals()
        finally:
            self.busy = False

    cdef int64_t time_hint(self, int64_t timestamp_ms) except -1:
        """An offset such that no earlier record has that time or a later one."""
        cdef int64_t start
        cdef bint beyond
        cdef ForeignSegment segment
        self.enter()
        try:
            while True:
                self.refresh()
                start = self.state.log_start
                try:
                    self.need_segments()
                    for slot in range(max(bisect_right(self.bases, self.state.log_start) - 1, 0), len(self.bases)):
                        segment = self.segment(slot)
                        start = max(start, segment.time_start(timestamp_ms, slot + 1 < len(self.bases), &beyond))
                        if not beyond:
                            break
                except (KraftError, OSError):
                    if not self.changed():
                        raise
                else:
                    if not self.changed():
                        return min(start, self.state.log_end)
                PyErr_CheckSignals()
        finally:
            self.busy = False

    cdef tuple find_in_slice(self, Slice piece, int64_t timestamp_ms):
        cdef BatchHeader h
        cdef Py_ssize_t position = 0
        cdef tuple found
        while batch_look(piece.data + position, piece.size - position, False, &h, NULL) == LOOK_OK:
            if h.max_timestamp >= timestamp_ms:
                found = self.find_in_batch(&h, piece.data + position, timestamp_ms)
                if found is not None:
                    return found
            position += batch_bytes(&h)
        return None

    cdef tuple find_in_batch(self, const BatchHeader* h, const unsigned char* batch, int64_t timestamp_ms):
        cdef DecompressLimits limits = decompress_limits_default()
        cdef Span span = records_of(batch, h, &limits, self.records)
        cdef RecordView record
        cdef int64_t timestamp
        cdef int step = record_next(&span, &record)
        while step == 1:
            timestamp = h.max_timestamp if batch_is_log_append_time(h) else h.base_timestamp + record.timestamp_delta
            if timestamp >= timestamp_ms and h.base_offset + record.offset_delta >= self.state.log_start:
                return h.base_offset + record.offset_delta, timestamp, h.leader_epoch
            step = record_next(&span, &record)
        if step < 0:
            raise CorruptRecordError(f"batch at offset {h.base_offset}: a record is malformed")
        return None

    # --- waiting ----------------------------------------------------------------------------------------------------

    cdef LiveView view_to_wait_on(self, int64_t offset, bint committed):
        """The page to wait on; None when the offset is visible already. LogClosedError without an owner to wait for."""
        self.enter()
        try:
            self.refresh()
            if self.limit(committed) > offset:
                return None
            if not self.live:
                raise LogClosedError(f"{os.fsdecode(self.path)}: the log has no owner that could append")
            return self.view
        finally:
            self.busy = False

    def wait(self, int64_t offset, timeout: float | None = None, isolation: str = "high_watermark") -> bool:
        """Block until the record at `offset` is visible; False when `timeout` seconds passed first.

        LogClosedError when it is not visible and no owner exists, or the owner ends meanwhile (noticed at once when it
        closes, within a second when it dies). While one thread waits another may read.
        """
        cdef bint committed = is_committed(isolation)
        cdef LiveView view = self.view_to_wait_on(offset, committed)
        return True if view is None else view.wait(offset, timeout, committed=committed)

    # --- what it is -------------------------------------------------------------------------------------------------

    cdef const kf_live_state* current(self) except NULL:
        self.enter()
        try:
            self.refresh()
            return &self.state
        finally:
            self.busy = False

    @property
    def directory(self) -> str:
        return os.fsdecode(self.path)

    @property
    def recovery(self) -> RecoveryReport | None:
        """Report of what opening the log would find and do; None while an owner exists."""
        self.current()
        return None if self.live else self.report

    @property
    def owner_alive(self) -> bool:
        """True while a writer has the log open."""
        return self.view is not None and self.view.owner_alive

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return self.current().log_start

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record will get."""
        return self.current().log_end

    @property
    def truncation_generation(self) -> int:
        """A number that changes with each truncation and each owner; 0 without an owner."""
        cdef const kf_live_state* state = self.current()
        return state.truncation_generation if self.live else 0

    @property
    def high_watermark(self) -> int:
        """End of what is visible."""
        return self.current().high_watermark

    @property
    def last_stable_offset(self) -> int:
        """End of what is visible to read_committed consumers."""
        self.enter()
        try:
            while True:
                self.refresh()
                try:
                    return self.limit(True)
                except (KraftError, OSError):
                    if not self.changed():
                        raise
        finally:
            self.busy = False
