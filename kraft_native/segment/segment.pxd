"""One segment: a `.log` file with its indexes. Owned by one Log; its thread only."""

from libc.stdint cimport int32_t, int64_t

from kraft_native.base.fault cimport Fault
from kraft_native.batch.batch cimport BatchHeader
from kraft_native.file.buffer cimport Slice
from kraft_native.segment.epochs cimport LeaderEpochCache
from kraft_native.segment.index cimport OffsetIndex, TimeIndex
from kraft_native.segment.ranges cimport RangeSet
from kraft_native.segment.scan cimport ScanBounds
from kraft_native.segment.segment_file cimport Copies, SegmentFile
from kraft_native.segment.txn_index cimport TransactionIndex


# Result of `Segment.step` at a position.
cdef enum StepResult:
    STEP_END = 0
    STEP_BATCH = 1
    STEP_DAMAGE = 2


cdef class Segment(SegmentFile):
    cdef readonly int64_t base_offset
    cdef readonly int64_t next_base             # base offset of the next segment, -1 on the active one
    cdef readonly OffsetIndex offset_index
    cdef readonly TimeIndex time_index
    cdef readonly TransactionIndex txn_index
    cdef RangeSet checked                       # bytes whose CRC and structure are known to be right
    cdef readonly list damage  # type: list[tuple[int, int, int, int, str]]  # known damaged ranges, see `Segment`

    cdef LeaderEpochCache epochs                # of the log, to compare batches with; None: no comparison
    cdef int64_t epoch_position                 # end of the last epoch check, and the epoch right before
    cdef int32_t epoch_before
    cdef bint timestamps_loaded
    cdef int64_t max_timestamp                  # largest so far, and the last offset of the first batch that has it
    cdef int64_t max_timestamp_offset
    cdef int64_t first_timestamp                # max timestamp of the first batch (time-based roll), -1: not known
    cdef readonly int64_t bytes_since_index
    cdef readonly int64_t index_interval_bytes
    cdef readonly int64_t index_bytes_max
    cdef readonly bint sealed
    cdef readonly bint indexes_ready
    cdef readonly bint indexes_rebuilt          # from the log, since it was opened
    # type: BaseException | None
    cdef readonly object unwritten              # the failure that keeps rebuilt indexes in memory only; None

    cdef bint txn_checked                       # the transaction index is known to be right
    cdef int64_t unstable_after                 # checked: first offset of the oldest transaction open at its end, or -1

    cdef int64_t gaps_end                       # only damage leaves gaps before batches past it; INT64_MAX: not known

    cdef bint durable                           # its bytes were flushed at creation: compaction's output
    cdef int64_t known_end                      # active: the log end at the close, -1: not known
    cdef int64_t resident_start                 # range that was in memory at the last check
    cdef int64_t resident_end
    cdef int64_t resident_until_ns              # on the monotonic clock: until then no check is needed

    # --- writing (active segment) -----------------------------------------------------------------------------------
    # Accounts for the next written batch: indexes, timestamps, size. Its bytes are regarded as checked.
    cdef int count_batch(self, const BatchHeader* h) except -1
    cdef int seal(self, int64_t next_base) except -1
    # Cuts the file; whole batches before `position` stay. Pinned slices stay readable.
    cdef int cut(self, int64_t position, int64_t offset) except -1
    cdef int flush_indexes(self, bint durable) except -1
    # Removes the files; slices stay readable.
    cdef int delete(self, list removed=*) except -1
    # --- reading ----------------------------------------------------------------------------------------------------
    cdef StepResult step(self, int64_t position, int64_t expected_offset, BatchHeader* h) except? STEP_END
    # Moves to the first sound batch from `position` on; `expected` is the smallest offset that may be there. False: the
    # segment ends before; both then describe that end.
    cdef bint next_sound(self, int64_t* position, int64_t* expected, BatchHeader* h) except -1
    # Position of the first batch whose last offset is >= offset, with its header; -1: the segment ends before.
    # CorruptLogError when `offset` is in damage. With `stop_at_damage` the start of the damage is returned instead; the
    # header then has only base_offset, the first missing offset.
    cdef int64_t locate(self, int64_t offset, BatchHeader* h, bint stop_at_damage) except? -2
    # Whole batches from the one that contains `offset`, none reaching `limit_offset`; the first whatever `max_bytes`.
    # None: the segment ends before `offset`. An empty slice: the limit is reached. A gap before a batch past `gaps_end`
    # is damage.
    cdef Slice read(self, int64_t offset, int64_t max_bytes, int64_t limit_offset, int64_t gaps_end)
    cdef int64_t end_offset(self) except? -1    # offset after the last sound batch; base_offset when there is none
    # --- times ------------------------------------------------------------------------------------------------------
    cdef int load_timestamps(self) except -1
    cdef int64_t largest_timestamp(self) except? -2
    cdef bint time_entry_holds(self, int64_t timestamp, int64_t offset) except -1
    cdef int64_t time_start(self, int64_t timestamp) except? -2
    cdef int64_t rolling_timestamp(self) except? -2
    cdef int64_t modified_ms(self) except? -2
    # --- plumbing ---------------------------------------------------------------------------------------------------
    cdef int check_from(self, int64_t position, int64_t expected_offset) except -1
    cdef void bounds(self, ScanBounds* bounds) noexcept nogil
    # Nothing is written for it, whatever has to be rebuilt, because of `failure`; its files are read into memory. Call
    # before its first use.
    cdef int set_apart(self, Copies copies, object failure) except -1
    cdef int hide_end(self, int64_t position, int64_t offset) except -1    # like `cut`, but nothing is written
    cdef int forget_checks(self, int64_t known_end) except -1
    cdef int note_damage(self, int64_t position, int64_t offset, const Fault* fault) except -1
    cdef tuple damage_at(self, int64_t position)
    cdef int raise_damage(self, tuple damaged, int64_t offset) except -1
    cdef int load_indexes(self) except -1
    cdef int make_indexes(self, bint detached) except -1
    cdef int grow_indexes(self) except -1
    cdef bint is_dear(self, int64_t position, int64_t taken_bytes) noexcept nogil
    cdef bint entry_names(self, int64_t entry_offset, const BatchHeader* h) noexcept nogil
    cdef int rebuild_indexes(self) except -1
    cdef int fill_indexes(self, bint detached) except -1
    cdef int64_t index_start(self, int64_t offset, int64_t* expected) except? -2
    cdef int64_t walk(self, int64_t position, int64_t expected, int64_t offset, BatchHeader* h,
                      bint stop_at_damage) except? -2
    cdef int64_t extent(self, int64_t position, int64_t max_bytes, int64_t limit_offset, int64_t gaps_end,
                        int64_t* next_offset) except? -2


# A segment whose files exist. `size` is that of the .log file: of its whole batches once recovery has cut it.
cdef Segment segment_load(bytes directory, int64_t base_offset, int64_t size, bint sealed, int64_t next_base,
                          int64_t index_interval_bytes, int64_t index_bytes_max)
# A new, empty, active segment with new files. The caller makes the directory entry durable.
cdef Segment segment_create(bytes directory, int64_t base_offset, int64_t index_interval_bytes,
                            int64_t index_bytes_max)
# A segment in memory only, without files, never written: the last one of a log that a full disk made read-only.
cdef Segment segment_detached(bytes directory, int64_t base_offset, int64_t index_interval_bytes,
                              int64_t index_bytes_max)
# Path of one of a segment's files: b".log", b".index", b".timeindex", b".txnindex", or b".snapshot".
cdef bytes segment_path(bytes directory, int64_t offset, bytes suffix)
