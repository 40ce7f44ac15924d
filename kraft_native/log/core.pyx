"""The state of one open log that its parts share.

Invariants, between any two calls:

    log_start <= log_end;  high watermark, durable end and last stable offset lie between them
    segments[i].next_base == segments[i + 1].base_offset;  only the last one is written
    producers.map_end_offset == log_end

Marks. `log_end`: the offset of the next record. `durable_end`: all below survives a power loss. The high watermark is
the end of what consumers see: in auto mode the log end (page-cache) or the durable end; in manual mode what the owner
set. The last stable offset is below it where transactions are open.

Failure. The first failed write or flush is kept. From then on every write raises `LogReadOnlyError` with it, and reads
continue. Nothing is retried: after a failed flush the kernel may have dropped the pages, and a second one would report
success.
"""

import os
import random
import threading

cimport cython
from libc.errno cimport ENOENT
from libc.stdint cimport INT64_MAX, int64_t
from posix.fcntl cimport O_RDONLY

from kraft_native.base.clock cimport clock_ms
from kraft_native.base.mutants cimport LAST_COMMITTED_BATCH_IS_HELD_BACK, mutant
from kraft_native.base.limits cimport INT32_MAX_VALUE, OFFSET_INDEX_ENTRY_BYTES, TIME_INDEX_ENTRY_BYTES
from kraft_native.file.file_io cimport check, file_close, file_open, file_sync, file_sync_dir
from kraft_native.log.marks cimport drop_kafka_mark, gap_marks, size_marks
from kraft_native.segment.config cimport DURABILITY_GROUP_COMMIT, DURABILITY_PAGE_CACHE, DURABILITY_PER_APPEND
from kraft_native.segment.segment cimport segment_create

from kraft_native.base.errors import LogClosedError, LogReadOnlyError, OperationError, StorageError, WrongThreadError
from kraft_native.log.marks import EPOCHS_CRC_KEY
from kraft_native.segment.checkpoints import LogState as LogStateFile
from kraft_native.segment.checkpoints import log_state_bytes, write_log_state

cdef enum:
    # How many offsets further than needed gaps are allowed: replicas of a compacted log have gap after gap, and each
    # record of the limit is a flush.
    GAPS_AHEAD = 1 << 20

# Kafka's file that names the topic of this log. The creator of the directory writes it, without a flush.
cdef bytes PARTITION_METADATA = b"/partition.metadata"

cdef Flusher shared_flusher = None
cdef object shared_flusher_lock = threading.Lock()

# How many forks lie between this process and the one that loaded the module.
cdef int fork_generation = 0


def note_fork() -> None:
    """Disown the logs of the parent in a fork's child: they belong to the parent, and so does the thread of the shared
    flusher."""
    global fork_generation, shared_flusher, shared_flusher_lock
    fork_generation += 1
    shared_flusher = None
    shared_flusher_lock = threading.Lock()


os.register_at_fork(after_in_child=note_fork)


cdef Flusher obtain_shared_flusher():
    """The process's one flusher for logs without their own. Its thread starts at the first use."""
    global shared_flusher
    with shared_flusher_lock:
        if shared_flusher is None:
            shared_flusher = Flusher()
        return shared_flusher


cdef int sync_if_present(bytes path) except -1:
    cdef int fd = file_open(path, O_RDONLY, 0)
    if fd == -ENOENT:
        return 0
    check(fd, path)
    try:
        check(file_sync(fd), path)
    finally:
        file_close(fd)
    return 0


@cython.final
cdef class LogCore:
    def __cinit__(self):
        self.lock_fd = self.log_dir_lock_fd = -1
        self.thread = PyThread_get_thread_ident()
        self.fork_generation = fork_generation
        self.settled_below = INT64_MAX
        self.scratch = Scratch()
        self.segments = []
        self.lost = []
        self.closing = []
        self.replaced = ReplacedFiles()

    def __dealloc__(self):
        file_close(self.lock_fd)
        file_close(self.log_dir_lock_fd)

    cdef int enter(self) except -1:
        if self.fork_generation != fork_generation:
            # Its threads have the same identities as the parent's, its mappings the same pages.
            raise OperationError(f"{os.fsdecode(self.directory)}: opened by another process, of which this is a fork")
        if PyThread_get_thread_ident() != self.thread:
            raise WrongThreadError(f"{os.fsdecode(self.directory)}: used by another thread than the one that opened it")
        if self.closed:
            raise LogClosedError(f"{os.fsdecode(self.directory)}: the log was closed")
        return 0

    cdef int need_no_failure(self) except -1:
        self.enter()
        if self.first_failure() is not None:
            raise LogReadOnlyError(f"{os.fsdecode(self.directory)}: read-only after a failure: {self.failure}",
                                   self.failure)
        return 0

    cdef int enter_write(self) except -1:
        self.need_no_failure()
        if self.clean or self.unsettled or self.epochs.pending:
            try:
                self.settle()
            except StorageError as error:
                self.fail(error)
        return 0

    cdef int settle(self) except -1:
        """Prepare the first change: withdraw the mark of a clean log, and do what was put off until now.

        The files of a log without records are put off. Such a log promises nothing. If a power loss removes its
        directory or leaves a file in it empty, the next open finds an empty log. The keeper of the list of logs (a
        node: its metadata) creates a missing one again. So a thousand new logs cost no flush; each one costs its own
        flush at first use. The same holds for the latest epoch: see `LeaderEpochCache.begin`.
        """
        cdef bint pending = self.epochs.pending
        if self.unsettled:
            sync_if_present(self.directory + PARTITION_METADATA)
            check(file_sync_dir(self.directory), self.directory)
            check(file_sync_dir(os.path.dirname(self.directory)), self.directory)
            drop_kafka_mark(self.directory)
        if pending:
            self.epochs.flush()
        if self.clean:
            # So that after a crash the log is known not to be clean (KAFKA-10471).
            self.write_marks(self.recovery_point, self.log_start, False)
            drop_kafka_mark(self.directory)
        elif pending:
            self.write_state(False)
        self.unsettled = False
        return 0

    cdef bint untouched(self) noexcept:
        return self.log_end == 0 and (self.unsettled or self.clean)

    cdef object first_failure(self):
        if self.failure is None and self.flush is not None and self.flush.failure() != 0:
            self.failure = StorageError(os.fsdecode(self.directory), self.flush.failure(), "flushing the log")
        return self.failure

    cdef int fail(self, object error) except -1:
        if self.failure is None:
            self.failure = error
        raise error

    # --- marks ------------------------------------------------------------------------------------------------------

    cdef Py_ssize_t slot_of(self, int64_t offset) noexcept:
        # A truncation that failed half-way may have left no segment at all.
        cdef Py_ssize_t low = 0, high = max(<Py_ssize_t>len(self.segments) - 1, 0), middle
        if offset >= self.active.base_offset:
            return high
        while low < high:
            middle = (low + high + 1) >> 1
            if (<Segment>self.segments[middle]).base_offset <= offset:
                low = middle
            else:
                high = middle - 1
        return low

    cdef int64_t durable_end(self) noexcept:
        cdef int64_t end = self.flushed_end
        if self.flush is not None:
            end = max(end, self.flush.durable_end())
        return min(end, self.log_end)

    cdef int64_t high_watermark(self) noexcept:
        cdef int64_t end
        if not self.config.high_watermark_auto:
            return self.high_watermark_offset
        end = self.log_end if self.config.durability_kind == DURABILITY_PAGE_CACHE else self.durable_end()
        # A log whose log start is past the durable end (or that was truncated) never shows less than its start.
        self.high_watermark_offset = max(end, self.log_start)
        return self.high_watermark_offset

    cdef int64_t last_stable_offset(self) noexcept:
        cdef int64_t high_watermark = self.high_watermark()
        cdef int64_t unstable = self.producers.first_unstable(high_watermark)
        if unstable < 0 or unstable >= high_watermark:
            return high_watermark
        return max(unstable, self.log_start)

    cdef int64_t visible_limit(self, int isolation) noexcept:
        if isolation == ISOLATION_LOG_END:
            return self.log_end
        if isolation == ISOLATION_HIGH_WATERMARK:
            return self.high_watermark() - (1 if mutant(LAST_COMMITTED_BATCH_IS_HELD_BACK) else 0)
        return self.last_stable_offset()

    # --- rolling ----------------------------------------------------------------------------------------------------

    cdef bint roll_due(self, int64_t bytes_count, int64_t last_offset, int64_t max_timestamp, int64_t now_ms) except -1:
        """Apply Kafka's LogSegment.shouldRoll to a write of `bytes_count` bytes that ends at `last_offset`."""
        cdef Segment active = self.active
        cdef int64_t since
        if last_offset - active.base_offset > INT32_MAX_VALUE:
            return True
        if active.size == 0:
            return False
        if active.size > self.config.segment_bytes - bytes_count:
            return True
        active.load_indexes()
        if (
            active.offset_index.count >= active.offset_index.max_bytes // OFFSET_INDEX_ENTRY_BYTES
            or active.time_index.count >= active.time_index.max_bytes // TIME_INDEX_ENTRY_BYTES - 1
        ):
            return True
        since = active.rolling_timestamp()
        # Record time where records have one; else the clock.
        since = max_timestamp - since if since >= 0 else now_ms - self.active_since_ms
        return since > self.config.segment_ms - self.jitter_ms

    cdef int roll(self, int64_t new_base) except -1:
        """Seal the active segment and begin the next one at `new_base`. Nothing is flushed on this thread, except with
        per-append durability. The flusher gets the remaining work of the old segment in the order old file, directory,
        new file."""
        cdef Segment old = self.active
        cdef Segment created
        try:
            old.seal(new_base)
            self.producers.advance(new_base)
            self.producers.write_snapshot(self.directory, new_base, False)
            self.live.segments_change()
            created = segment_create(self.directory, new_base, self.config.index_interval_bytes,
                                     self.config.index_bytes_max)
            if self.config.durability_kind == DURABILITY_PER_APPEND:
                check(file_sync_dir(self.directory), self.directory)
                old.close_file()
            else:
                self.hand_over(old)
        except BaseException as error:
            self.fail(error)
        self.segments.append(created)
        self.active = created
        self.live.segments_change()
        self.begin_active()
        return 0

    cdef int hand_over(self, Segment old) except -1:
        """Give the sealed segment's file and the directory to the flusher."""
        cdef FlushHandle flush = self.handle()
        if old.fd >= 0:
            flush.raise_result(flush.put(old.fd, old.next_base, 0))
            self.closing.append(old)
        flush.raise_result(flush.put_directory(self.directory))
        self.release_flushed()
        return 0

    cdef int begin_active(self) except -1:
        """Set up the state of a new active segment."""
        self.active.windowed = self.config.durability_kind == DURABILITY_PAGE_CACHE
        self.active_since_ms = clock_ms()
        self.jitter_ms = 0
        if self.config.segment_jitter_ms > 0:
            self.jitter_ms = random.randrange(min(self.config.segment_jitter_ms, self.config.segment_ms))
        return 0

    # --- durability -------------------------------------------------------------------------------------------------

    cdef FlushHandle handle(self):
        """The log's handle at its flusher, created on first use."""
        if self.flush is None:
            if self.flusher is None:
                self.flusher = obtain_shared_flusher()
            self.flush = self.flusher.register(self.directory, self.flushed_end)
        return self.flush

    cdef int write_done(self, int64_t bytes_count) except -1:
        cdef int result
        if self.config.durability_kind == DURABILITY_GROUP_COMMIT:
            result = self.flush.put(self.active.fd, self.log_end, bytes_count)
            if result < 0:
                try:
                    self.flush.raise_result(result)
                except Exception as error:     # a closed flusher too: nothing would become durable any more
                    self.fail(error)
        elif self.config.durability_kind == DURABILITY_PER_APPEND:
            try:
                self.active.sync()
            except StorageError as error:
                self.fail(error)
            self.flushed_end = self.log_end
        self.publish()
        return 0

    cdef void publish(self) noexcept:
        self.live.publish_limits(self.log_start, self.high_watermark(), self.last_stable_offset(), self.log_end,
                                 self.active.base_offset, self.active.size)

    cdef int flush_to(self, int64_t end_offset, int64_t timeout_ns) except -1:
        """Return when all below `end_offset` is durable: 0; 1 when the time passed first."""
        cdef FlushHandle flush
        if self.durable_end() >= end_offset:
            return 0
        try:
            if self.config.durability_kind == DURABILITY_PER_APPEND:
                self.active.sync()
                self.flushed_end = self.log_end
                return 0
            flush = self.handle()
            if self.config.durability_kind == DURABILITY_PAGE_CACHE:
                self.active.open_file(True)
                flush.raise_result(flush.put_directory(self.directory))
                flush.raise_result(flush.put(self.active.fd, self.log_end, 0))
            if not flush.wait(end_offset, None if timeout_ns < 0 else timeout_ns / 1e9):
                return 1
        except StorageError as error:
            self.fail(error)
        self.publish()
        return 0

    cdef int release_flushed(self) except -1:
        """Close descriptors of sealed segments that the flusher is done with.

        Its mark alone is no proof: it may have been at the segment's end before the segment was handed over. Anything
        past that end was submitted later, and steps are done in order.
        """
        cdef int64_t durable = self.flush.durable_end() if self.flush is not None else 0
        cdef Segment segment
        while self.closing:
            segment = self.closing[0]
            if segment.next_base >= durable:
                return 0
            segment.close_file()
            del self.closing[0]
        return 0

    cdef int forget_segment(self, Segment segment) except -1:
        """Make the flusher release a segment's descriptor, before it is closed because the segment is removed."""
        cdef int result
        cdef FlushHandle flush = self.flush
        if flush is None or segment.fd < 0:
            return 0
        with nogil:
            result = flush.forget_file(segment.fd)
        flush.raise_result(result)
        if segment in self.closing:
            self.closing.remove(segment)
        return 0

    # --- the state file, and the end --------------------------------------------------------------------------------

    cdef int limit_losses(self, int64_t log_end) except -1:
        """Adjust the losses before offsets from `log_end` on are cut; other records will get these offsets."""
        self.lost = [(offset, min(<int64_t>next_offset, log_end)) for offset, next_offset in self.lost
                     if <int64_t>offset < log_end]
        return 0

    cdef int write_marks(self, int64_t recovery_point, int64_t log_start, bint clean) except -1:
        # The durable offset is recorded as `durable_end`. The recovery point stays below the active segment, which is
        # always checked: inside it, it would exempt the segment once sealed, though nothing has made its indexes
        # durable.
        cdef tuple before = (self.noted_durable, self.noted_start, self.recovery_point)
        self.noted_durable = recovery_point
        self.noted_start = log_start
        self.recovery_point = recovery_point if clean else min(recovery_point, self.active.base_offset)
        self.noted_gaps_end = self.gaps_end
        self.lost = self.lost_above(log_start)
        try:
            self.write_state(clean)
        except BaseException:
            self.noted_durable, self.noted_start, self.recovery_point = before
            raise
        return 0

    cdef list lost_above(self, int64_t log_start):
        return [lost for lost in self.lost if <int64_t>lost[1] > log_start]

    cdef int write_state(self, bint clean) except -1:
        cdef object state = self.state(self.noted_durable, self.recovery_point, self.noted_start,
                                       self.noted_gaps_end, clean)
        self.state_writes += 1
        write_log_state(self.directory, state)
        self.noted_state = log_state_bytes(state)
        self.clean = clean
        return 0

    cdef object state_with(self, int64_t durable_end, int64_t log_start):
        # Like `write_marks`.
        return self.state(durable_end, min(durable_end, self.active.base_offset), log_start, self.gaps_end, False)

    cdef object state(self, int64_t durable_end, int64_t recovery_point, int64_t log_start, int64_t gaps_end,
                      bint clean):
        cdef list lost = self.lost_above(log_start)
        cdef dict further = gap_marks(self.segments, gaps_end, durable_end, self.settled_below)
        if clean:
            further |= size_marks(self.segments)
        if lost:
            further["lost_offsets"] = " ".join([f"{offset}-{next_offset}" for offset, next_offset in lost])
        if self.epochs.trusted:
            further[EPOCHS_CRC_KEY] = f"{self.epochs.stored_crc:08x}"
        return LogStateFile(
            log_start, recovery_point, self.log_end if clean else -1, clean,
            {"high_watermark": str(self.high_watermark()), "first_dirty_offset": str(self.first_dirty),
             "durable_end": str(durable_end), "active_base": str(self.active.base_offset),
             "active_size": str(self.active.size)} | further)

    cdef int note_gaps(self, int64_t end) except -1:
        self.gaps_end = max(self.gaps_end, end)
        if end <= self.noted_gaps_end:
            return 0
        self.noted_gaps_end = end + GAPS_AHEAD
        try:
            self.write_state(False)
        except StorageError as error:
            self.fail(error)
        return 0

    cdef int begin_compaction(self, int64_t end) except -1:
        # No sizes are recorded while segments are replaced: a crash may leave any of the old and the new ones.
        self.gaps_end = self.noted_gaps_end = max(self.gaps_end, end)
        self.settled_below = 0
        try:
            self.write_state(False)
        except StorageError as error:
            self.fail(error)
        return 0

    cdef int begin_epoch(self, int32_t epoch, int64_t offset) except -1:
        if self.epochs.assign(epoch, offset):
            self.write_state(False)
        return 0

    cdef int cut_epochs(self, int64_t end_offset) except -1:
        """Drop epochs from `end_offset` on, durably, after the log was cut."""
        if self.epochs.truncate_from_end(end_offset):
            self.write_state(False)
        return 0

    cdef int close(self) except -1:
        if self.closed:
            return 0
        if self.fork_generation != fork_generation:
            self.release()             # the files on disk belong to the parent
            return 0
        self.enter()
        try:
            if self.failure is None and not self.clean and not self.unsettled:
                self.enter_write()
                self.finish()
        finally:
            self.release()
        return 0

    cdef int discard(self) except -1:
        if not self.closed:
            if self.fork_generation == fork_generation:
                self.enter()
            self.release()
        return 0

    cdef int finish(self) except -1:
        """End cleanly: all files complete and durable, then the mark that says so."""
        cdef Segment segment
        self.settled_below = INT64_MAX     # any compaction has ended: it finds the log closed
        try:
            self.active.seal(-1)
            self.flush_to(self.log_end, -1)
            self.active.sync()
            if self.flush is not None:
                # A step after the last bytes, such as the directory's, may still run: its failure counts, too.
                self.flush.close()
                if self.first_failure() is not None:
                    raise self.failure
            for segment in self.segments:
                segment.flush_indexes(True)
            self.producers.write_snapshot(self.directory, self.log_end, True)
            self.epochs.flush()
            check(file_sync_dir(self.directory), self.directory)
            self.write_marks(self.log_end, self.log_start, True)
        except StorageError as error:
            self.fail(error)
        return 0

    cdef int release(self) except -1:
        """Release everything that is not memory; slices stay valid."""
        cdef Segment segment
        self.closed = True
        if self.live is not None:
            self.live.close()
        if self.flush is not None:
            self.flush.close()
        if self.owns_flusher and self.fork_generation == fork_generation:
            self.flusher.close()
        for segment in self.segments:
            segment.close_file()
            if segment.copies is not None:
                segment.copies.held.clear()        # they refer back to it
        self.segments = []
        self.lost = []
        self.active = None
        file_close(self.lock_fd)
        file_close(self.log_dir_lock_fd)
        self.lock_fd = self.log_dir_lock_fd = -1
        self.replaced.wait()
        return 0
