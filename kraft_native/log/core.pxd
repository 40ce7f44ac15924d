"""The state of one open log that its parts share: segments, marks, durability. It has no policy."""

from libc.stdint cimport int32_t, int64_t, uint64_t

from kraft_native.batch.batch cimport BatchHeader
from kraft_native.file.buffer cimport Scratch
from kraft_native.log.apply cimport ControlMark
from kraft_native.log.flusher cimport FlushHandle, Flusher
from kraft_native.log.live cimport LivePage
from kraft_native.log.replaced_files cimport ReplacedFiles
from kraft_native.log.txn_check cimport TxnChecker
from kraft_native.segment.config cimport LogConfig
from kraft_native.segment.epochs cimport LeaderEpochCache
from kraft_native.segment.producers cimport ProducerStates
from kraft_native.segment.segment cimport Segment

cdef extern from "pythread.h" nogil:
    unsigned long PyThread_get_thread_ident()


# Limit of a read.
cdef enum Isolation:
    ISOLATION_LOG_END = 0              # replicas
    ISOLATION_HIGH_WATERMARK = 1       # read_uncommitted
    ISOLATION_LAST_STABLE = 2          # read_committed


cdef class LogCore:
    cdef readonly bytes directory
    cdef readonly LogConfig config
    cdef list segments                 # of Segment, ascending base offsets; the last one is active; never empty
    cdef Segment active
    cdef LeaderEpochCache epochs
    cdef ProducerStates producers
    cdef TxnChecker txn_checker
    cdef Scratch scratch               # decompressed records, one use at a time
    cdef int64_t log_start
    cdef int64_t log_end
    cdef int64_t high_watermark_offset  # manual high watermark; in auto mode the last published
    cdef int64_t flushed_end           # durable before this process, or flushed by the owner's own thread
    cdef int64_t recovery_point        # as in the state file

    cdef int64_t noted_durable         # likewise
    cdef int64_t noted_start           # likewise
    cdef int64_t first_dirty           # below it is compacted; outside the log: its start

    cdef list lost                     # of (offset, next offset): known to be lost

    cdef int64_t gaps_end              # gaps that end at or below it may come from compaction, here or at a leader

    cdef int64_t noted_gaps_end        # as in the state file, or below that
    cdef int64_t settled_below         # segments that end at or below it keep their size; INT64_MAX: all sealed ones

    cdef int64_t active_since_ms       # start of the active segment
    cdef int64_t jitter_ms             # of the active segment
    cdef FlushHandle flush             # None until first needed
    cdef Flusher flusher
    cdef bint owns_flusher
    cdef list closing                  # sealed segments whose descriptor the flusher may still use
    cdef ReplacedFiles replaced        # by compaction; a thread closes them
    cdef object remover                # None, or called with names of files to remove: see `Log.remove_with`

    cdef bytes noted_state             # the content of the state file
    cdef uint64_t state_writes         # number of its writes

    cdef object failure                # the first failed write or flush

    cdef LivePage live                 # limits for readers, here and in other processes

    cdef bint unsettled                # no record was ever in it: its files need not outlive a power loss yet
    cdef bint clean                    # nothing was written since a clean open: the files are unchanged
    cdef int lock_fd
    cdef int log_dir_lock_fd       # shared, of Kafka's log directory around a log opened by itself; -1: none
    cdef unsigned long thread
    cdef int fork_generation           # of the process that opened it
    cdef bint closed

    # Checks before every call: right process and thread, open. And before every write: no earlier failure.
    cdef int enter(self) except -1
    cdef int enter_write(self) except -1
    # Makes durable what must be so before the first record, and before the first one of an epoch.
    cdef int settle(self) except -1
    cdef int need_no_failure(self) except -1
    # True when there is nothing to flush, record or delete, now or before.
    cdef bint untouched(self) noexcept
    # The failed write or flush that made the log read-only, including the flusher's; None.
    cdef object first_failure(self)
    # Makes the log read-only and raises `error`.
    cdef int fail(self, object error) except -1

    cdef Py_ssize_t slot_of(self, int64_t offset) noexcept     # of the last segment whose base is <= offset, or 0
    cdef int64_t durable_end(self) noexcept
    cdef int64_t high_watermark(self) noexcept
    cdef int64_t last_stable_offset(self) noexcept
    cdef int64_t visible_limit(self, int isolation) noexcept

    cdef bint roll_due(self, int64_t bytes_count, int64_t last_offset, int64_t max_timestamp, int64_t now_ms) except -1
    cdef int roll(self, int64_t new_base) except -1
    cdef int hand_over(self, Segment old) except -1
    cdef int begin_active(self) except -1
    cdef int write_done(self, int64_t bytes_count) except -1   # after log_end moved: durability, wake-ups
    cdef void publish(self) noexcept                           # reports the limits to readers; wakes them on a move
    cdef FlushHandle handle(self)
    cdef int flush_to(self, int64_t end_offset, int64_t timeout_ns) except -1
    cdef int release_flushed(self) except -1
    cdef int limit_losses(self, int64_t log_end) except -1
    # Writes the state file, durably.
    cdef int write_marks(self, int64_t recovery_point, int64_t log_start, bint clean) except -1
    # Writes it with the last written marks, because another part of it has changed.
    cdef int write_state(self, bint clean) except -1
    # Records durably that a leader epoch begins, before a batch of it is written.
    cdef int begin_epoch(self, int32_t epoch, int64_t offset) except -1
    cdef int cut_epochs(self, int64_t end_offset) except -1
    # Records durably that gaps may end at `end`, before one is written: of batches to be appended, or by a compaction
    # of the segments up to there.
    cdef int note_gaps(self, int64_t end) except -1
    cdef int begin_compaction(self, int64_t end) except -1
    # The content of the state file if everything below `durable_end` were durable, indexes too.
    cdef object state_with(self, int64_t durable_end, int64_t log_start)
    cdef object state(self, int64_t durable_end, int64_t recovery_point, int64_t log_start, int64_t gaps_end,
                      bint clean)
    cdef list lost_above(self, int64_t log_start)
    cdef int close(self) except -1
    # Ends a log whose files are to be removed: nothing is flushed, nothing written.
    cdef int discard(self) except -1
    cdef int finish(self) except -1
    cdef int release(self) except -1
    cdef int forget_segment(self, Segment segment) except -1
