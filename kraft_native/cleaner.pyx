"""Compaction of one log: the latest record of each key stays (Kafka's LogCleaner and LogCleanerManager).

A round reads the dirty part of the log, from the first dirty offset up, into a map of key -> latest offset, until its
end or until the map is full; then it rewrites everything below that point, segment group by segment group, without the
records that the map has a later one for. The dirty part then begins behind it. `cleanfilter.pyx` has the rules for
records, `cleantxns.pyx` those for transactions, `cleanwriter.pyx` the swap of a group. `docs/internals/compaction.md`
tells the whole.

The owner's thread. The GIL is released while plain batches (not compressed, of no transaction) are read, checked,
filtered and written, and while files are flushed; it is held for every other batch.

Memory: the map's bytes, 8 MiB to read (or two of the largest batch), 1 MiB to write (or one), and one batch
decompressed and rebuilt. Segments are read by pread, not through their mappings; large ones by a thread, ahead.
"""

import os
import time
from typing import NamedTuple

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport INT64_MAX, int32_t

from kraft_native.batch cimport (
    BatchHeader, batch_bytes, batch_codec, batch_has_delete_horizon, batch_is_control, batch_is_transactional,
    batch_last_offset,
)
from kraft_native.cleanfilter cimport FILTER_DROP, FILTER_KEEP, FILTER_MALFORMED
from kraft_native.cleansource cimport SOURCE_BATCH, SOURCE_END, SOURCE_GROW, SOURCE_REFILL
from kraft_native.cleanwriter cimport INDEX_MARKS_MAX, swap_segments
from kraft_native.control cimport control_parse
from kraft_native.fileio cimport check
from kraft_native.limits cimport (
    BATCH_HEADER_BYTES, CODEC_NONE, INT32_MAX_VALUE, LOG_OVERHEAD_BYTES,
)
from kraft_native.logcore cimport clock_ms
from kraft_native.lookup cimport aborted_between
from kraft_native.records cimport RecordView, record_next, records_of
from kraft_native.span cimport span_of

from kraft_native.checkpoints import read_log_state, read_offsets
from kraft_native.errors import (
    CorruptFileError, CorruptRecordError, InvalidArgumentError, MessageTooLargeError, StorageError,
)

cdef enum:
    # Bytes between two looks at signals and calls of `progress`.
    PAUSE_BYTES = 16 * 1024 * 1024
    # Sources from this size on are closed by a thread.
    CLOSE_ASIDE_BYTES = 16 * 1024 * 1024

STATE_KEY = "first_dirty_offset"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"


class CleanerStats(NamedTuple):
    """What one call of `Log.compact` did. Counts are over all its rounds."""

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


@cython.final
cdef class Dirty:
    """The part of a log that can be cleaned now: dirty from `first`, and all of it below `upper`, a segment's base."""
    cdef int64_t first
    cdef int64_t upper
    cdef int64_t dirty_bytes
    cdef int64_t clean_bytes
    cdef bint overdue                  # a record in it is older than max.compaction.lag.ms


cdef Dirty find_dirty(LogCore core, int64_t now_ms):
    """Kafka's LogCleanerManager.cleanableOffsets, maxCompactionDelay and calculateCleanableBytes."""
    cdef Dirty dirty = Dirty()
    cdef Segment segment
    cdef int64_t limit = min(core.last_stable_offset(), core.active.base_offset)
    cdef int64_t timestamp
    dirty.first = core.first_dirty
    if not core.log_start <= dirty.first <= core.log_end:
        dirty.first = core.log_start
    for segment in core.segments[core.slot_of(dirty.first):len(core.segments) - 1]:
        if core.config.min_compaction_lag_ms > 0 and segment.base_offset < limit:
            if segment.largest_timestamp() > now_ms - core.config.min_compaction_lag_ms:
                limit = segment.base_offset
        timestamp = segment.rolling_timestamp() if segment.size > 0 else -1
        if 0 < timestamp < now_ms - core.config.max_compaction_lag_ms:
            dirty.overdue = True
    segment = core.segments[core.slot_of(max(limit, dirty.first))]
    dirty.upper = segment.base_offset
    for segment in core.segments:
        if segment.base_offset < dirty.first:
            dirty.clean_bytes += segment.size
        if segment.base_offset < dirty.upper and segment.next_base > dirty.first:
            dirty.dirty_bytes += segment.size
    return dirty


cdef bint due(LogCore core, Dirty dirty):
    """Whether Kafka would pick the log for cleaning."""
    if dirty.dirty_bytes == 0:
        return False
    return dirty.overdue or (dirty.dirty_bytes / <double>(dirty.clean_bytes + dirty.dirty_bytes)
                             > core.config.min_cleanable_dirty_ratio)


cdef object compact_log(LogCore core, object now_ms, int64_t buffer_bytes, bint force, object progress):
    cdef Cleaner cleaner
    cdef Dirty dirty
    cdef int64_t now = clock_ms() if now_ms is None else now_ms
    cdef Segment segment
    if not core.config.compact:
        raise InvalidArgumentError(f"cleanup_policy: {core.config.cleanup_policy!r} does not compact")
    if now < 0:
        raise InvalidArgumentError(f"now_ms: {now} is below 0")
    OffsetMap(buffer_bytes)            # says what is wrong with it
    started = time.perf_counter()
    cleaner = Cleaner.__new__(Cleaner)
    cleaner.core = core
    cleaner.progress = progress
    cleaner.figures = dict.fromkeys(CleanerStats._fields, 0)
    cleaner.figures["segments_before"] = len(core.segments)
    cleaner.figures["bytes_before"] = bytes_of(core.segments)
    core.replaced.wait()
    while True:
        dirty = find_dirty(core, now)
        segment = core.segments[0]
        if dirty.upper <= segment.base_offset or not (force or due(core, dirty)):
            break
        core.enter_write()             # not before: a look at a log that stays as it is changes none of its files
        cleaner.round(dirty.first, dirty.upper, now, buffer_bytes)
        if core.first_dirty >= dirty.upper:
            break
    cleaner.figures["first_dirty_offset"] = find_dirty(core, now).first
    cleaner.figures["segments_after"] = len(core.segments)
    cleaner.figures["bytes_after"] = bytes_of(core.segments)
    cleaner.figures["seconds"] = time.perf_counter() - started
    return CleanerStats(**cleaner.figures)


cdef int64_t noted_first_dirty(bytes directory) except? -2:
    """Our own note, else that of a Kafka broker in the directory above. One that cannot be understood counts as none:
    all is dirty then, which only costs time."""
    try:
        state = read_log_state(directory)
        if state is not None and STATE_KEY in state.extra:
            return max(int(state.extra[STATE_KEY]), -1)
        topic, _, partition = os.path.basename(os.fsdecode(directory)).rpartition("-")
        path = os.path.join(os.path.dirname(os.fsdecode(directory)), CLEANER_CHECKPOINT)
        if topic and partition.isascii() and partition.isdigit() and os.path.exists(path):
            return read_offsets(path).get((topic, int(partition)), -1)
    except (CorruptFileError, ValueError):
        return -1
    return -1


cdef int64_t file_bytes(Segment segment, bytes suffix) except -1:
    path = segment.path[:len(segment.path) - 4] + suffix
    return os.path.getsize(path) if os.path.exists(path) else 0


cdef list group_segments(LogCore core, list segments, int64_t upper):
    """Neighbours that together stay within segment.bytes, segment.index.bytes and the range of relative offsets."""
    cdef list groups = []
    cdef list group
    cdef Segment segment, first
    cdef int64_t size = 0, index_size = 0, time_size = 0, index_bytes, time_bytes
    for segment in segments:
        index_bytes = file_bytes(segment, b".index")
        time_bytes = file_bytes(segment, b".timeindex")
        if groups:
            group = groups[len(groups) - 1]
            first = group[0]
            if (
                size + segment.size <= core.config.segment_bytes
                and index_size + index_bytes <= core.config.segment_index_bytes
                and time_size + time_bytes <= core.config.segment_index_bytes
                and (segment.size == 0 or segment.next_base - 1 - first.base_offset <= INT32_MAX_VALUE)
            ):
                group.append(segment)
                size += segment.size
                index_size += index_bytes
                time_size += time_bytes
                continue
        groups.append([segment])
        size = segment.size
        index_size = index_bytes
        time_size = time_bytes
    return groups


cdef int64_t bytes_of(list segments) except -1:
    cdef Segment segment
    cdef int64_t total = 0
    for segment in segments:
        total += segment.size
    return total


cdef inline bint is_plain(const BatchHeader* h) noexcept nogil:
    return batch_codec(h) == CODEC_NONE and not batch_is_control(h) and not batch_is_transactional(h)


@cython.final
cdef class Cleaner:
    def __cinit__(self):
        self.source = BatchSource()
        self.writer = SegmentWriter()
        self.filter = RecordFilter()
        self.unpacked = Scratch()

    cdef int round(self, int64_t first_dirty, int64_t upper, int64_t now_ms, int64_t buffer_bytes) except -1:
        cdef LogCore core = self.core
        cdef Segment segment
        cdef list segments, group
        self.watch()
        self.map = None
        self.map = OffsetMap(buffer_bytes)
        self.total_bytes = bytes_of(core.segments)
        self.done_bytes = 0
        self.replacing = False
        try:
            self.build_map(first_dirty, upper)
            self.figures["map_bytes_read"] += self.done_bytes
            self.figures["map_keys"] = max(self.figures["map_keys"], len(self.map))
            self.filter.map = self.map
            self.filter.map_end = self.map_end
            self.filter.round_end = upper
            self.filter.producers = core.producers
            self.filter.limits = core.config.validation.limits
            self.filter.now_ms = now_ms
            self.filter.horizon_ms = (INT64_MAX if core.config.delete_retention_ms > INT64_MAX - now_ms
                                      else now_ms + core.config.delete_retention_ms)
            self.filter.records_read = self.filter.records_kept = self.filter.records_without_key = 0
            self.transactions = CleanedTransactions()
            segments = [segment for segment in core.segments if segment.base_offset < self.map_end]
            self.total_bytes = self.done_bytes + bytes_of(segments)
            self.gaps_end = 0
            for segment in segments:
                self.gaps_end = segment.next_base
            for group in group_segments(core, segments, upper):
                self.clean_group(group)
        finally:
            self.source.close()
            self.core.replaced.close()
            core.settled_below = INT64_MAX
        core.first_dirty = max(self.map_end, first_dirty)
        try:
            core.write_marks(core.recovery_point, core.log_start, False)
        except StorageError as error:
            core.fail(error)
        self.figures["rounds"] += 1
        self.figures["records_read"] += self.filter.records_read
        self.figures["records_kept"] += self.filter.records_kept
        self.figures["records_without_key"] += self.filter.records_without_key
        return self.pause()

    cdef int pause(self) except -1:
        self.since_pause_bytes = 0
        PyErr_CheckSignals()
        if self.progress is not None:
            self.progress(self.done_bytes, self.total_bytes)
            self.require_unchanged()
        return 0

    cdef int watch(self) except -1:
        """Notes the sealed segments as they are now."""
        self.watched = self.core.segments[:len(self.core.segments) - 1]
        return 0

    cdef int require_unchanged(self) except -1:
        """Appending and rolling do no harm; truncation and retention do."""
        cdef Segment last
        cdef bint changed = self.core.closed or self.core.segments[:len(self.watched)] != self.watched
        if self.watched and not changed:
            last = self.watched[len(self.watched) - 1]
            changed = not last.sealed
        if changed:
            raise InvalidArgumentError("progress: it changed the segments that are being compacted")
        return 0

    cdef int begin_segment(self, Segment segment, int64_t position) except -1:
        self.source.open(segment.path, segment.size, position, segment.base_offset)
        self.filter.prepare(self.source.capacity)
        return 0

    cdef Stop next_batch(self, bint writing) noexcept nogil:
        """Goes to the next batch: STOP_ATTENTION when there is one, else why there is none."""
        cdef int result
        while True:
            self.found = self.source.next()
            if self.found == SOURCE_BATCH:
                self.done_bytes += batch_bytes(&self.source.h)
                return STOP_ATTENTION
            if self.found == SOURCE_END:
                return STOP_END
            if self.found == SOURCE_GROW:
                return STOP_GROW
            if self.found != SOURCE_REFILL:
                return STOP_SOURCE
            if self.since_pause_bytes >= PAUSE_BYTES:
                return STOP_PAUSE
            if writing:
                # What the writer was given lies in the piece that is filled again.
                result = self.writer.settle()
                if result < 0:
                    self.error = -result
                    return STOP_WRITE
            self.since_pause_bytes += self.source.refill()

    cdef int act(self, Stop stop) except -1:
        """What both walks do at a stop that is not theirs."""
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
            self.source.raise_result(self.found)
        elif stop == STOP_WRITE:
            check(-self.error, self.writer.path)
        return 0

    cdef int load_aborted(self, int64_t offset) except -1:
        """Before the first batch of a transaction in what is walked: logs without any never ask."""
        if self.aborted_end >= 0:
            self.transactions.add(aborted_between(self.core, offset, self.aborted_end))
            self.aborted_end = -1
        return 0

    # --- the map ----------------------------------------------------------------------------------------------------

    cdef int build_map(self, int64_t first_dirty, int64_t upper) except -1:
        """Fills the map from [first_dirty, upper), and sets `map_end` to where it ends."""
        cdef Segment segment
        self.map_end = max(first_dirty, upper)
        self.queue.count = 0
        self.transactions = CleanedTransactions()
        if first_dirty >= upper:
            self.map_end = upper
            return 0
        self.aborted_end = upper
        for segment in self.core.segments[self.core.slot_of(first_dirty):]:
            if segment.base_offset >= upper or self.map_segment(segment, first_dirty):
                break
        return 0

    cdef bint map_segment(self, Segment segment, int64_t first_dirty) except -1:
        """True when the map became full; `map_end` is then the first offset that it does not cover."""
        cdef BatchHeader h
        cdef Stop stop
        cdef int64_t position = 0
        if segment.base_offset < first_dirty:
            position = segment.locate(first_dirty, &h, True)
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
        """A batch that is not plain. STOP_PAUSE: done with it, go on."""
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
            span = records_of(self.source.batch, h, &self.core.config.validation.limits, self.unpacked)
        except (CorruptRecordError, MessageTooLargeError) as error:
            self.source.malformed(error)
        with nogil:
            stop = self.map_records(&span, first_dirty)
        return STOP_PAUSE if stop == STOP_END else stop

    cdef Stop map_records(self, Span* span, int64_t first_dirty) noexcept nogil:
        """The keys of one batch. STOP_END: all of them were taken."""
        cdef RecordView r
        cdef int64_t offset, refused
        cdef int found
        while True:
            found = record_next(span, &r)
            if found != 1:
                return STOP_END if found == 0 else STOP_MALFORMED
            offset = self.source.h.base_offset + r.offset_delta
            if r.key_bytes < 0 or offset < first_dirty:
                continue
            refused = self.map.queue_key(&self.queue, r.key, r.key_bytes, offset)
            if refused >= 0:
                self.map_end = refused
                return STOP_FULL

    # --- the rewrite ------------------------------------------------------------------------------------------------

    cdef int clean_group(self, list group) except -1:
        cdef LogCore core = self.core
        cdef Segment segment = group[0], last = group[len(group) - 1]
        self.transactions.kept = []
        if len(group) == 1:
            if self.untouched(segment):
                return 0
        self.writer.begin(core.directory, segment.base_offset, core.config.index_interval_bytes, bytes_of(group))
        try:
            for segment in group:
                self.clean_segment(segment, False)
            self.writer.finish(self.transactions.kept, os.stat(last.path).st_mtime_ns)
            if not self.replacing:
                core.begin_compaction(self.gaps_end)
                self.replacing = True
        except BaseException:
            self.writer.drop()
            raise
        self.figures["bytes_written"] += self.writer.size
        self.figures["segments_rewritten"] += len(group)
        swap_segments(core, self.writer, group)
        self.core.replaced.close()
        self.watch()
        return 0

    cdef bint untouched(self, Segment segment) except -1:
        """Whether nothing of the segment would change. If something would, it is as if it had not been walked."""
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
        """Gives what stays to the writer. `dry`: only looks, and gives False at the first batch that would change."""
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
        """A batch that is not plain. STOP_PAUSE: done with it, go on."""
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
                written = self.writer.settle()     # the next rebuilt batch takes its memory
        if written < 0:
            self.error = -written
            return STOP_WRITE
        return STOP_PAUSE
