"""Opening the files of a log: which exist, which are sound, which have to be rebuilt."""

from libc.stdint cimport int32_t, int64_t

from kraft_native.log.marks cimport LogMarks
from kraft_native.log.txn_check cimport TxnChecker
from kraft_native.segment.config cimport LogConfig
from kraft_native.segment.epochs cimport LeaderEpochCache
from kraft_native.segment.producers cimport ProducerStates
from kraft_native.segment.segment cimport Segment


cdef class LoadedLog:
    """Result of `load_log`, which `Log` adopts. The last segment is the active one and may be written at its end."""
    cdef bytes directory
    cdef LogConfig config
    cdef LogMarks marks
    cdef list segments                 # of Segment, ascending; never empty
    cdef LeaderEpochCache epochs
    cdef ProducerStates producers      # at log_end
    cdef int64_t log_start
    cdef int64_t log_end

    cdef int64_t recovery_point        # records below it are durable
    cdef int64_t high_watermark        # as last recorded. -1: not known
    cdef bint clean                    # closed cleanly, and the opening changed nothing
    cdef bint untouched                # no record was ever in it, and none noted

    cdef int64_t gaps_end              # gaps that end at or below it may come from compaction

    cdef bint is_new                   # no segment existed: the present one was created now
    cdef dict noted_bytes              # base offset -> size, of segments that compaction left
    cdef bint epochs_lost              # the file of the leader epochs is unusable

    cdef Py_ssize_t scanned_from       # slot of the first scanned segment; len(segments): none
    cdef object failure                # a full disk kept something from being written; None

    cdef object shared                 # the `SharedOffsets` that it was found with
    cdef bint apart                    # the directory is not ours: nothing is written, files are read into memory
    cdef readonly object report  # type: RecoveryReport

    cdef int load_segments(self) except -1
    cdef int add_segment(self, int64_t base_offset) except -1
    cdef bint tail_fits(self) except -1
    cdef int scan(self) except -1
    cdef int end_at_damage(self) except -1
    cdef int settle_end(self, int64_t valid_end) except -1
    cdef int end_damaged(self, Segment active) except -1
    cdef int cut_end(self, Segment active, tuple damaged) except -1
    cdef int note_losses(self, int64_t valid_end) except -1
    cdef int note_shrunk(self) except -1
    cdef int64_t note_damage(self, Segment segment, tuple damaged) except -1
    cdef int join_losses(self) except -1
    cdef int lose(self, int64_t offset, int64_t next_offset) except -1
    cdef int read_epochs(self) except -1
    cdef int load_epochs(self) except -1
    cdef int assign_epoch(self, int32_t epoch, int64_t start_offset) except -1
    cdef str epochs_path(self)
    cdef int load_producers(self) except -1
    cdef int reload_producers(self) except -1
    cdef TxnChecker txn_checker(self)
    cdef bint load_snapshot(self, int64_t offset) except -1
    cdef bytes snapshot_after_loss(self, str path)
    cdef int check_txn_indexes(self) except -1
    cdef bint never_written(self) except -1
    cdef bint is_as_noted(self) except -1
    cdef int keep(self) except -1
    cdef int write_kept(self) except -1
    cdef int bear(self, object error) except -1


# Loads the log of `directory`, which exists and is locked by the caller. `log_start`, `recovery_point` and `clean` as
# for `read_marks`. `failure`: why the log cannot be written and is only viewed, not owned by the caller; None: it can
# be. `marks_read`: the caller has read Kafka's checkpoints; what it does not pass is not in them. `shared` as for
# `read_marks`.
cdef LoadedLog load_log(bytes directory, LogConfig config, int64_t log_start, int64_t recovery_point, bint clean,
                        bint marks_read, object failure, object shared=*)
