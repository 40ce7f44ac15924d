"""Compaction of one log: the latest record of each key stays (Kafka's LogCleaner and LogCleanerManager).

A round reads the dirty part of the log, from the first dirty offset up, into a map of key -> latest offset. It stops at
the end of the dirty part or when the map is full. Then it rewrites everything below that point, one segment group after
the other, without the records for which the map has a later one. The dirty part then begins behind it.
`filter.pyx` has the rules for records, `txns.pyx` those for transactions, `writer.pyx` the swap of a
group. `docs/internals/compaction.md` describes the whole.

Threads. Steps that read or change the log's state run on its owner's thread: begin and end of a round, check of
transaction indexes, swap of a group. All else (reading sealed segments, writing the output) runs on the
calling thread: the owner's, or another that has its steps done by the owner (`on_owner`). Meanwhile the owner may do
anything: segments that retention removes are skipped, a truncation ends the compaction.

The GIL is released while batches are filtered, while plain ones (not compressed, of no transaction) are read, checked
and written, and while files are flushed.

Memory: the map's bytes, 8 MiB to read (or two of the largest batch), 1 MiB to write (or one), and one batch
decompressed and rebuilt. Segments are read by pread, not through their mappings; large ones by a thread, ahead.
"""

import os
from typing import NamedTuple

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport INT64_MAX, int32_t

from kraft_native.base.clock cimport clock_ms, monotonic_ns
from kraft_native.base.limits cimport BATCH_HEADER_BYTES, CODEC_NONE, LOG_OVERHEAD_BYTES, SEGMENT_BYTES_MAX
from kraft_native.base.span cimport span_of
from kraft_native.batch.batch cimport (
    BatchHeader, batch_bytes, batch_codec, batch_has_delete_horizon, batch_is_control, batch_is_legacy,
    batch_is_transactional,
    batch_last_offset,
)
from kraft_native.batch.control cimport control_parse
from kraft_native.batch.records cimport RecordView, record_next, records_of
from kraft_native.compact.dirty cimport bytes_of, due, find_dirty, group_segments
from kraft_native.compact.filter cimport FILTER_DROP, FILTER_KEEP, FILTER_MALFORMED
from kraft_native.compact.offset_map cimport km_prefetch
from kraft_native.compact.source cimport SOURCE_BATCH, SOURCE_END, SOURCE_GROW, SOURCE_REFILL
from kraft_native.compact.writer cimport INDEX_MARKS_MAX, swap_segments
from kraft_native.file.file_io cimport check
from kraft_native.log.lookup cimport aborted_between

from kraft_native.base.errors import (
    CorruptRecordError, InvalidArgumentError, MessageTooLargeError, OperationError, StorageError,
)

cdef enum:
    # Bytes between two checks for signals and calls of `progress`.
    PAUSE_BYTES = 16 * 1024 * 1024
    # Sources from this size on are closed by a thread.
    CLOSE_ASIDE_BYTES = 16 * 1024 * 1024


class CleanerStats(NamedTuple):
    """Result of one call of `Log.compact`. Counts are over all its rounds."""

    rounds: int
    first_dirty_offset: int
    segments_before: int
    segments_after: int
    segments_rewritten: int
    bytes_before: int
    bytes_after: int
    map_bytes_read: int
    bytes_read: int
    bytes_written: int
    records_read: int
    records_kept: int
    records_without_key: int
    map_keys: int
    seconds: float


cdef object compact_log(LogCore core, object now_ms, int64_t buffer_bytes, bint force, object progress, object throttle,
                        object on_owner):
    cdef Cleaner cleaner = Cleaner.__new__(Cleaner)
    cleaner.core = core
    cleaner.progress = progress
    cleaner.throttle = throttle
    cleaner.on_owner = on_owner
    cleaner.force = force
    cleaner.now_ms = clock_ms() if now_ms is None else now_ms
    if cleaner.now_ms < 0:
        raise InvalidArgumentError(f"now_ms: {now_ms} is below 0")
    OffsetMap(buffer_bytes)            # raises when the size is invalid
    cleaner.buffer_bytes = buffer_bytes
    cleaner.figures = dict.fromkeys(CleanerStats._fields, 0)
    started_ns = monotonic_ns()
    core.replaced.wait()
    while cleaner.request(OWNER_BEGIN):
        cleaner.round()
    cleaner.figures["seconds"] = (monotonic_ns() - started_ns) / 1e9
    return CleanerStats(**cleaner.figures)


cdef inline bint is_plain(const BatchHeader* h) noexcept nogil:
    return (batch_codec(h) == CODEC_NONE and not batch_is_control(h) and not batch_is_transactional(h)
            and not batch_is_legacy(h))


@cython.final
cdef class Cleaner:
    def __cinit__(self):
        self.source = BatchSource()
        self.writer = SegmentWriter()
        self.filter = RecordFilter()
        self.unpacked = Scratch()

    # --- the owner's steps ------------------------------------------------------------------------------------------

    cdef object request(self, OwnerStep step):
        """Run the step on the owner's thread, and return its result."""
        self.step = step
        return self.owner_step() if self.on_owner is None else self.on_owner(self.owner_step)

    def owner_step(self) -> object:
        """The function that `on_owner` gets: runs the pending step."""
        if self.step == OWNER_BEGIN:
            return self.begin_round()
        if self.step == OWNER_LEAVE:
            self.core.settled_below = INT64_MAX
            return None
        self.require_unchanged()
        if self.step == OWNER_ABORTED:
            return aborted_between(self.core, self.aborted_start, self.aborted_end)
        if self.step == OWNER_SWAP:
            return self.swap()
        return self.end_round()

    cdef bint begin_round(self) except -1:
        """Capture the present state of the log; return False when there is nothing to do."""
        cdef LogCore core = self.core
        cdef BatchHeader h
        cdef Segment segment
        core.need_no_failure()
        if not core.config.compact:
            raise InvalidArgumentError(f"cleanup_policy: {core.config.cleanup_policy!r} does not compact")
        if self.figures["rounds"] == 0:
            self.generation = core.live.page.state.truncation_generation
            self.figures["segments_before"] = len(core.segments)
            self.figures["bytes_before"] = bytes_of(core.segments)
        self.require_unchanged()
        self.dirty = find_dirty(core, self.now_ms)
        segment = core.segments[0]
        if self.done or self.dirty.upper <= segment.base_offset or not (self.force or due(core, self.dirty)):
            self.figures["first_dirty_offset"] = self.dirty.first
            self.figures["segments_after"] = len(core.segments)
            self.figures["bytes_after"] = bytes_of(core.segments)
            return False
        core.enter_write()             # not before: a check that finds nothing to do must not change any file
        self.config = core.config
        self.replacing = False
        self.segments = [segment for segment in core.segments if segment.base_offset < self.dirty.upper]
        self.map_slot = core.slot_of(self.dirty.first)
        self.map_position = 0
        segment = core.segments[self.map_slot]
        if segment.base_offset < self.dirty.first < self.dirty.upper:
            self.map_position = segment.locate(self.dirty.first, &h, True)
        self.filter.producers = core.producers.copy_of_batches()
        return True

    cdef bint swap(self) except -1:
        """Swap the group. Return False when retention removed a segment of it, so that there is nothing to swap."""
        if not self.present(self.group):
            return False
        if not self.replacing:
            # A record may only be dropped for a later one that is as durable. Page-cache durability does not ensure
            # that by itself; the roll has had the segment flushed, so there is seldom anything to wait for.
            self.core.flush_to(self.map_end, -1)
            self.core.begin_compaction(self.gaps_end)
            self.replacing = True
        self.swapping = True
        swap_segments(self.core, self.writer, self.group)
        return True

    cdef int end_round(self) except -1:
        cdef LogCore core = self.core
        core.first_dirty = max(self.map_end, self.dirty.first)
        self.done = core.first_dirty >= self.dirty.upper
        if self.on_owner is not None:
            return 0                   # the next checkpoint records it: a lower number only costs time
        try:
            core.write_marks(core.recovery_point, core.log_start, False)
        except StorageError as error:
            core.fail(error)
        return 0

    cdef bint present(self, list group) except -1:
        cdef Segment first = group[0]
        cdef Py_ssize_t slot
        if self.core.closed:
            return False
        slot = self.core.slot_of(first.base_offset)
        return self.core.segments[slot:slot + len(group)] == group

    cdef int require_unchanged(self) except -1:
        """Raise if the log was truncated or closed: the map may name removed offsets. Appends, rolls and retention are
        safe."""
        if self.core.closed or self.core.live.page.state.truncation_generation != self.generation:
            raise OperationError(f"{os.fsdecode(self.core.directory)}: the log was truncated or closed while it was "
                                 "being compacted")
        return 0

    # --- a round ----------------------------------------------------------------------------------------------------

    cdef int round(self) except -1:
        cdef list group
        self.map = None
        self.map = OffsetMap(self.buffer_bytes)
        self.total_bytes = bytes_of(self.segments)
        self.done_bytes = 0
        self.throttled_bytes = self.figures["bytes_written"]
        try:
            self.build_map(self.dirty.first, self.dirty.upper)
            self.figures["map_bytes_read"] += self.done_bytes
            self.figures["map_keys"] = max(self.figures["map_keys"], len(self.map))
            self.prepare_filter()
            self.transactions = CleanedTransactions()
            self.segments = [segment for segment in self.segments if (<Segment>segment).base_offset < self.map_end]
            self.total_bytes = self.done_bytes + bytes_of(self.segments)
            self.gaps_end = (<Segment>self.segments[len(self.segments) - 1]).next_base if self.segments else 0
            for group in group_segments(self.config, self.segments):
                self.clean_group(group)
        finally:
            self.source.close()
            self.core.replaced.close()
            if self.replacing:
                self.request(OWNER_LEAVE)
        self.request(OWNER_END)
        self.figures["rounds"] += 1
        self.figures["records_read"] += self.filter.records_read
        self.figures["records_kept"] += self.filter.records_kept
        self.figures["records_without_key"] += self.filter.records_without_key
        return self.pause()

    cdef int prepare_filter(self) except -1:
        cdef int64_t retention_ms = self.config.delete_retention_ms
        self.filter.map = self.map
        self.filter.map_end = self.map_end
        self.filter.round_end = self.dirty.upper
        self.filter.limits = self.config.validation.limits
        self.filter.now_ms = self.now_ms
        self.filter.horizon_ms = INT64_MAX if retention_ms > INT64_MAX - self.now_ms else self.now_ms + retention_ms
        self.filter.records_read = self.filter.records_kept = self.filter.records_without_key = 0
        return 0

    cdef int pause(self) except -1:
        cdef int64_t moved = self.done_bytes + self.figures["bytes_written"] + self.writer.size
        self.since_pause_bytes = 0
        PyErr_CheckSignals()
        if self.throttle is not None:
            self.throttle(max(moved - self.throttled_bytes, <int64_t>0))
            self.throttled_bytes = moved
        if self.progress is not None:
            self.progress(self.done_bytes, self.total_bytes)
        return self.require_unchanged()

    cdef int begin_segment(self, Segment segment, int64_t position) except -1:
        self.source.open(segment.path, segment.size, position, segment.base_offset, segment.next_base)
        self.filter.prepare(self.source.capacity)
        return 0

    cdef Stop next_batch(self, bint writing) noexcept nogil:
        """Advance to the next batch: STOP_ATTENTION when one exists, else the reason for none."""
        cdef int result
        while True:
            self.source_state = self.source.next()
            if self.source_state == SOURCE_BATCH:
                self.done_bytes += batch_bytes(&self.source.h)
                return STOP_ATTENTION
            if self.source_state == SOURCE_END:
                return STOP_END
            if self.source_state == SOURCE_GROW:
                return STOP_GROW
            if self.source_state != SOURCE_REFILL:
                return STOP_SOURCE
            if self.since_pause_bytes >= PAUSE_BYTES:
                return STOP_PAUSE
            if writing:
                # The writer's pending bytes lie in the piece that is filled again.
                result = self.writer.settle()
                if result < 0:
                    self.error = -result
                    return STOP_WRITE
            self.since_pause_bytes += self.source.refill()

    cdef int act(self, Stop stop) except -1:
        """Handle a stop that is common to both walks."""
        if stop == STOP_PAUSE:
            self.pause()
        elif stop == STOP_GROW:
            # The writer's run lies in a piece that moves.
            check(self.writer.settle(), self.writer.path)
            self.source.grow()
            self.filter.prepare(self.source.capacity)
        elif stop == STOP_INDEX:
            self.writer.index()
        elif stop == STOP_MALFORMED:
            self.source.malformed("its records contradict its header")
        elif stop == STOP_SOURCE:
            self.source.raise_result(self.source_state)
        elif stop == STOP_WRITE:
            check(-self.error, self.writer.path)
        return 0

    cdef int load_aborted(self, int64_t offset) except -1:
        """Load the aborted transactions before the first transactional batch of a walk: logs without any never load
        them."""
        if self.aborted_end >= 0:
            self.aborted_start = offset
            self.transactions.add(self.request(OWNER_ABORTED))
            self.aborted_end = -1
        return 0

    # --- the map ----------------------------------------------------------------------------------------------------

    cdef int build_map(self, int64_t first_dirty, int64_t upper) except -1:
        """Fill the map from [first_dirty, upper), and set `map_end` to where it ends."""
        cdef Segment segment
        self.map_end = max(first_dirty, upper)
        self.queue.count = 0
        self.transactions = CleanedTransactions()
        if first_dirty >= upper:
            self.map_end = upper
            return 0
        self.aborted_end = upper
        for segment in self.segments[self.map_slot:]:
            try:
                if self.map_segment(segment, first_dirty):
                    break
            except (OSError, StorageError):
                if self.present([segment]):
                    raise
        return 0

    cdef bint map_segment(self, Segment segment, int64_t first_dirty) except -1:
        """Map one segment. True when the map became full; `map_end` is then the first offset that it does not cover."""
        cdef Stop stop
        cdef int64_t position = self.map_position if segment.base_offset < first_dirty else 0
        if position < 0:
            return False
        self.begin_segment(segment, position)
        while True:
            with nogil:
                stop = self.map_plain(first_dirty)
            if stop == STOP_ATTENTION:
                stop = self.map_other(first_dirty)
                if stop == STOP_PAUSE:
                    continue
            if stop == STOP_FULL:
                return True
            if stop == STOP_END:
                break
            self.act(stop)
        position = self.map.drain(&self.queue)
        if position >= 0:
            self.map_end = position
        return position >= 0

    cdef Stop map_plain(self, int64_t first_dirty) noexcept nogil:
        cdef Stop stop
        cdef BatchHeader* h = &self.source.h
        cdef Span span
        while True:
            stop = self.next_batch(False)
            if stop != STOP_ATTENTION or not is_plain(h):
                return stop
            span = span_of(self.source.batch + BATCH_HEADER_BYTES,
                           h.batch_length - (BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES))
            stop = self.map_records(&span, first_dirty)
            if stop != STOP_END:
                return stop

    cdef Stop map_other(self, int64_t first_dirty) except *:
        """Map a batch that is not plain. STOP_PAUSE: done with it, continue."""
        cdef BatchHeader* h = &self.source.h
        cdef Span span
        cdef Stop stop
        cdef int32_t type = -1, epoch
        if batch_is_control(h):
            if control_parse(self.source.batch, h, &type, &epoch) < 0:
                return STOP_MALFORMED
            self.load_aborted(h.base_offset)
            self.transactions.take_control(h, type)
            return STOP_PAUSE
        if batch_is_transactional(h):
            self.load_aborted(h.base_offset)
            if self.transactions.take_data(h):
                return STOP_PAUSE
        if h.record_count == 0:
            return STOP_PAUSE
        try:
            span = records_of(self.source.batch, h, &self.config.validation.limits, self.unpacked)
        except (CorruptRecordError, MessageTooLargeError) as error:
            self.source.malformed(error)
        with nogil:
            stop = self.map_records(&span, first_dirty)
        return STOP_PAUSE if stop == STOP_END else stop

    cdef Stop map_records(self, Span* span, int64_t first_dirty) noexcept nogil:
        """Map the keys of one batch. STOP_END: all of them are in the map."""
        cdef RecordView r
        cdef int64_t offset, refused
        cdef int found
        while True:
            found = record_next(span, &r)
            if found != 1:
                return STOP_END if found == 0 else STOP_MALFORMED
            # Records are about as large as their neighbours: prefetch one that comes soon.
            km_prefetch(span.p + 2 * r.size)
            offset = self.source.h.base_offset + r.offset_delta
            if r.key_bytes < 0 or offset < first_dirty:
                continue
            refused = self.map.queue_key(&self.queue, r.key, r.key_bytes, offset)
            if refused >= 0:
                self.map_end = refused
                return STOP_FULL

    # --- the rewrite ------------------------------------------------------------------------------------------------

    cdef int clean_group(self, list group) except -1:
        self.group = group
        self.transactions.kept = []
        self.swapping = swapped = False
        self.filter.growth_left = min(<int64_t>SEGMENT_BYTES_MAX, 2 * self.config.segment_bytes) - bytes_of(group)
        try:
            if len(group) == 1 and self.untouched(group[0]):
                return 0
            self.rewrite_group()
            swapped = self.request(OWNER_SWAP)
        except (OSError, StorageError):
            if self.swapping or self.present(group):
                raise
        finally:
            # A swap that has begun is finished or undone by the next opening.
            if not self.swapping and self.writer.fd >= 0:
                self.writer.drop()
        if swapped:
            self.figures["bytes_written"] += self.writer.size
            self.figures["segments_rewritten"] += len(group)
        self.writer.size = 0
        self.core.replaced.close()
        return 0

    cdef int rewrite_group(self) except -1:
        """Write the remaining records of the group to `.cleaned` files, durably."""
        cdef Segment segment = self.group[0]
        self.writer.begin(self.core.directory, segment.base_offset, self.config.index_interval_bytes,
                          bytes_of(self.group))
        for segment in self.group:
            self.clean_segment(segment, False)
        return self.writer.finish(self.transactions.kept, os.stat(segment.path).st_mtime_ns)

    cdef bint untouched(self, Segment segment) except -1:
        """True when nothing of the segment would change. Otherwise the state is as if it had not been walked."""
        cdef CleanedTransactions before = self.transactions.copy()
        cdef int64_t done = self.done_bytes
        cdef int64_t read = self.filter.records_read, kept = self.filter.records_kept
        cdef int64_t without_key = self.filter.records_without_key
        if self.clean_segment(segment, True):
            return True
        self.transactions = before
        self.done_bytes = done
        self.filter.records_read = read
        self.filter.records_kept = kept
        self.filter.records_without_key = without_key
        return False

    cdef bint clean_segment(self, Segment segment, bint dry) except -1:
        """Pass the remaining records to the writer. `dry`: only check, return False at the first batch that would
        change."""
        cdef Stop stop
        self.aborted_end = segment.next_base
        self.begin_segment(segment, 0)
        while True:
            with nogil:
                stop = self.clean_plain(dry)
            if stop == STOP_ATTENTION:
                stop = self.clean_other(dry)
                if stop == STOP_PAUSE:
                    continue
            if stop == STOP_CHANGE:
                return False
            if stop == STOP_END:
                break
            self.act(stop)
        if not dry:
            # The piece that the writer's run lies in is used again.
            check(self.writer.settle(), self.writer.path)
            if segment.size >= CLOSE_ASIDE_BYTES:
                self.core.replaced.add(self.source.release())
        self.figures["bytes_read"] += segment.size
        return True

    cdef Stop clean_plain(self, bint dry) noexcept nogil:
        cdef Stop stop
        cdef FilterResult result
        while True:
            if self.writer.mark_count == INDEX_MARKS_MAX:
                return STOP_INDEX
            stop = self.next_batch(not dry)
            if stop != STOP_ATTENTION or not is_plain(&self.source.h):
                return stop
            result = self.filter.plain(self.source.batch, &self.source.h)
            if result == FILTER_MALFORMED:
                return STOP_MALFORMED
            stop = self.place(result, dry)
            if stop != STOP_PAUSE:
                return stop

    cdef Stop clean_other(self, bint dry) except *:
        """Clean a batch that is not plain. STOP_PAUSE: done with it, continue."""
        cdef BatchHeader* h = &self.source.h
        cdef FilterResult result = FILTER_MALFORMED
        cdef int32_t type = -1, epoch
        cdef bint discard = False, empty_marker = False
        if batch_is_control(h):
            if control_parse(self.source.batch, h, &type, &epoch) < 0:
                return STOP_MALFORMED
            self.load_aborted(h.base_offset)
            empty_marker = self.transactions.take_control(h, type)
            discard = empty_marker and batch_has_delete_horizon(h) and h.base_timestamp <= self.filter.now_ms
        elif batch_is_transactional(h):
            self.load_aborted(h.base_offset)
            discard = self.transactions.take_data(h)
        try:
            result = self.filter.any(self.source.batch, h, discard, empty_marker)
        except CorruptRecordError as error:
            self.source.malformed(error)
        return self.place(result, dry)

    cdef Stop place(self, FilterResult result, bint dry) noexcept nogil:
        cdef BatchHeader* h = &self.source.h
        cdef int written = 0
        if dry:
            return STOP_PAUSE if result == FILTER_KEEP else STOP_CHANGE
        if result == FILTER_KEEP:
            written = self.writer.put(self.source.batch, batch_bytes(h), batch_last_offset(h), h.max_timestamp)
        elif result != FILTER_DROP:
            h = &self.filter.new
            written = self.writer.put(self.filter.rebuilt, batch_bytes(h), batch_last_offset(h), h.max_timestamp)
            if written == 0:
                written = self.writer.settle()     # the next rebuilt batch uses its memory
        if written < 0:
            self.error = -written
            return STOP_WRITE
        return STOP_PAUSE
