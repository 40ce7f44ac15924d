"""Compaction of one log, in rounds."""

from libc.stdint cimport int64_t, uint64_t

from kraft_native.base.span cimport Span
from kraft_native.compact.dirty cimport Dirty
from kraft_native.compact.filter cimport FilterResult, RecordFilter
from kraft_native.compact.offset_map cimport KeyQueue, OffsetMap
from kraft_native.compact.source cimport BatchSource, SourceResult
from kraft_native.compact.txns cimport CleanedTransactions
from kraft_native.compact.writer cimport SegmentWriter
from kraft_native.file.buffer cimport Scratch
from kraft_native.log.core cimport LogCore
from kraft_native.segment.config cimport LogConfig
from kraft_native.segment.segment cimport Segment

cdef enum:
    COMPACT_BUFFER_BYTES_DEFAULT = 128 * 1024 * 1024


# Reasons for which a walk without the GIL returned.
cdef enum Stop:
    STOP_END = 0                   # the segment is done
    STOP_ATTENTION = 1             # the batch needs the GIL: compressed, of a transaction, or a control batch
    STOP_PAUSE = 2                 # time for signals and progress; then continue

    STOP_GROW = 3                  # the source's buffer is too small
    STOP_INDEX = 4                 # index entries are pending
    STOP_CHANGE = 5                # dry: this batch would change
    STOP_FULL = 6                  # the map is full
    STOP_MALFORMED = 7
    STOP_SOURCE = 8                # `source_state` has the cause
    STOP_WRITE = 9                 # `error` is the errno


# Steps on the owner's thread, for a compaction that may run on another.
cdef enum OwnerStep:
    OWNER_BEGIN = 0                # begin a round: the dirty part, and the segments as they are now
    OWNER_ABORTED = 1              # the aborted transactions of a range

    OWNER_SWAP = 2                 # put the output in the place of its group
    OWNER_LEAVE = 3                # end a round that replaced segments, however it ended
    OWNER_END = 4                  # end a round: record how far the log is clean


cdef class Cleaner:
    cdef LogCore core                  # touched in owner's steps only, except its list of segments and `closed`
    cdef LogConfig config              # of the round
    cdef object progress
    cdef object throttle
    cdef object on_owner
    cdef OwnerStep step
    cdef bint force
    cdef bint done
    cdef bint swapping
    cdef int64_t now_ms
    cdef int64_t buffer_bytes
    cdef uint64_t generation           # of truncations, at the beginning
    cdef Dirty dirty                   # of the round, like the three after it
    cdef list segments
    cdef Py_ssize_t map_slot
    cdef int64_t map_position          # in segments[map_slot]; -1: nothing there is dirty
    cdef list group
    cdef OffsetMap map
    cdef KeyQueue queue
    cdef BatchSource source
    cdef SegmentWriter writer
    cdef RecordFilter filter
    cdef CleanedTransactions transactions
    cdef Scratch unpacked
    cdef SourceResult source_state
    cdef int error
    cdef int64_t map_end
    cdef int64_t gaps_end              # of the last segment that the round may rewrite
    cdef int64_t aborted_start
    cdef int64_t aborted_end           # where to search for aborted transactions once there is one; -1: done
    cdef int64_t since_pause_bytes
    cdef int64_t throttled_bytes
    cdef int64_t done_bytes
    cdef int64_t total_bytes
    cdef dict figures
    cdef bint replacing                # the round has replaced segments, or is about to

    # --- the owner's steps
    cdef object request(self, OwnerStep step)
    cdef bint begin_round(self) except -1
    cdef bint swap(self) except -1
    cdef int end_round(self) except -1
    cdef bint present(self, list group) except -1
    cdef int require_unchanged(self) except -1
    # --- a round
    cdef int round(self) except -1
    cdef int prepare_filter(self) except -1
    cdef int pause(self) except -1
    cdef int load_aborted(self, int64_t offset) except -1
    cdef int begin_segment(self, Segment segment, int64_t position) except -1
    cdef Stop next_batch(self, bint writing) noexcept nogil
    cdef int act(self, Stop stop) except -1
    # --- the map
    cdef int build_map(self, int64_t first_dirty, int64_t upper) except -1
    cdef bint map_segment(self, Segment segment, int64_t first_dirty) except -1
    cdef Stop map_plain(self, int64_t first_dirty) noexcept nogil
    cdef Stop map_other(self, int64_t first_dirty) except *
    cdef Stop map_records(self, Span* span, int64_t first_dirty) noexcept nogil
    # --- the rewrite
    cdef int clean_group(self, list group) except -1
    cdef int rewrite_group(self) except -1
    cdef bint untouched(self, Segment segment) except -1
    cdef bint clean_segment(self, Segment segment, bint dry) except -1
    cdef Stop clean_plain(self, bint dry) noexcept nogil
    cdef Stop clean_other(self, bint dry) except *
    cdef Stop place(self, FilterResult result, bint dry) noexcept nogil


# See `Log.compact`. Returns a CleanerStats.
cdef object compact_log(LogCore core, object now_ms, int64_t buffer_bytes, bint force, object progress, object throttle,
                        object on_owner)
