"""Removal of records: from a log's end (truncation), from its front (retention, record deletion).

Effects of a crash. From the end: segments are removed last to first, each removal durable before the next. So the
rest is always a log without a hole, at worst longer than requested. From the front: the new log start is made durable
first; segments below it that come back after a power loss are removed again by the next open.

The recovery point is lowered, durably, before a cut. Otherwise the bytes written after the cut would count as flushed
at the next open (KAFKA-10101).
"""

import os

from libc.stdint cimport INT64_MAX, int64_t

from kraft_native.base.clock cimport clock_ms
from kraft_native.base.mutants cimport (
    HIGH_WATERMARK_STAYS_AFTER_FULL_TRUNCATION, PRODUCERS_SURVIVE_TRUNCATION, mutant,
)
from kraft_native.batch.batch cimport BatchHeader
from kraft_native.file.file_io cimport check, file_sync_dir
from kraft_native.log.apply cimport replay_segment
from kraft_native.log.lookup cimport cold_for_largest
from kraft_native.segment.segment cimport segment_create

from kraft_native.base.errors import InvalidArgumentError, OffsetOutOfRangeError, StorageError
from kraft_native.segment.producer_snapshots import remove_snapshots_before


cdef bint truncate_to(LogCore core, int64_t offset) except -1:
    cdef BatchHeader h
    cdef int64_t position
    cdef Py_ssize_t slot
    cdef Segment segment
    if offset < 0:
        raise InvalidArgumentError(f"offset: {offset} is below 0")
    if offset >= core.log_end:
        # A leader's epoch may have been recorded at the log end without a batch.
        try:
            core.cut_epochs(core.log_end)
        except StorageError as error:
            core.fail(error)
        return False
    if offset < (<Segment>core.segments[0]).base_offset:
        truncate_fully(core, offset)
        return True
    try:
        core.first_dirty = min(core.first_dirty, offset)
        slot = core.slot_of(offset)
        segment = core.segments[slot]
        position = segment.locate(offset, &h, True)
        if position >= 0 and h.base_offset < offset:
            offset = h.base_offset     # whole batches are removed; or the rest of damage
        core.limit_losses(offset)
        core.settled_below = offset
        core.write_marks(min(core.recovery_point, segment.base_offset), min(core.log_start, offset), False)
        core.live.truncation_begins()
        drop_segments_from(core, slot + 1)
        core.log_end = offset
        core.log_start = min(core.log_start, offset)
        core.forget_segment(segment)
        segment.cut(position if position >= 0 else segment.size, offset)
        segment.sync()
        core.settled_below = INT64_MAX
        core.gaps_end = core.noted_gaps_end = min(core.gaps_end, offset)
        core.flushed_end = min(core.flushed_end, offset)
        if core.flush is not None:
            core.flush.raise_result(core.flush.reset_to(offset))
        core.cut_epochs(offset)
        replay_tail(core)
        core.high_watermark_offset = min(core.high_watermark_offset, offset)
        core.begin_active()
    except BaseException as error:
        core.fail(error)
    finally:
        let_readers_in(core)
    return True


cdef int let_readers_in(LogCore core) except -1:
    """Mark the end of a truncation, or of its failure: all below the present log end is whole."""
    core.publish()
    core.live.truncation_ends()
    return 0


cdef int replay_tail(LogCore core) except -1:
    """Bring the producers to the log end after a truncation."""
    cdef Segment segment
    cdef int64_t reached
    if mutant(PRODUCERS_SURVIVE_TRUNCATION):
        core.producers.advance(core.log_end)
        return 0
    core.producers.truncate_and_reload(core.directory, core.log_start, core.log_end, clock_ms())
    reached = core.producers.map_end_offset
    for segment in core.segments[core.slot_of(reached):]:
        if reached < core.log_end:
            reached = replay_segment(segment, reached, core.producers)
    core.producers.advance(core.log_end)
    return 0


cdef int truncate_fully(LogCore core, int64_t offset) except -1:
    cdef int64_t high_watermark_offset = core.high_watermark_offset
    if offset < 0:
        raise InvalidArgumentError(f"offset: {offset} is below 0")
    try:
        core.first_dirty = offset
        core.lost = []
        core.settled_below = 0
        core.write_marks(offset, offset, False)
        core.live.truncation_begins()
        drop_segments_from(core, 0)
        core.producers.truncate_fully(core.directory, offset)
        core.active = segment_create(core.directory, offset, core.config.index_interval_bytes,
                                     core.config.index_bytes_max)
        core.segments.append(core.active)
        check(file_sync_dir(core.directory), core.directory)
        core.settled_below = INT64_MAX
        core.gaps_end = core.noted_gaps_end = min(core.gaps_end, offset)
        core.log_start = core.log_end = core.high_watermark_offset = core.flushed_end = offset
        if mutant(HIGH_WATERMARK_STAYS_AFTER_FULL_TRUNCATION):
            core.high_watermark_offset = high_watermark_offset
        core.epochs.trusted = True     # nothing that it could contradict is left
        core.cut_epochs(0)
        if core.flush is not None:
            core.flush.raise_result(core.flush.reset_to(offset))
        core.begin_active()
    except BaseException as error:
        core.fail(error)
    finally:
        let_readers_in(core)
    return 0


cdef int drop_segments_from(LogCore core, Py_ssize_t slot) except -1:
    """Remove segments[slot:] from the disk, last first, and from the list."""
    cdef Segment segment
    while len(core.segments) > slot:
        segment = core.segments[len(core.segments) - 1]
        # First, so that a failure leaves a log whose offsets are all in its segments.
        core.log_end = min(core.log_end, max(segment.base_offset, core.log_start))
        core.high_watermark_offset = min(core.high_watermark_offset, core.log_end)
        core.forget_segment(segment)
        segment.delete()
        check(file_sync_dir(core.directory), core.directory)
        del core.segments[len(core.segments) - 1]
        if core.segments:
            core.active = core.segments[len(core.segments) - 1]
    return 0


cdef int drop_segments_before(LogCore core, Py_ssize_t slot) except -1:
    """Remove segments[:slot]; one is left. The log start moves to the first that is left."""
    cdef Segment segment
    cdef list dropped, removed = None if core.remover is None else []
    if slot == 0:
        return 0
    if slot == len(core.segments):
        core.roll(core.log_end)
    dropped = core.segments[:slot]
    segment = core.segments[slot]
    move_log_start(core, max(core.log_start, segment.base_offset))
    del core.segments[:slot]
    # Before a file is removed, readers in other processes can see the new log start, and that their lists are old.
    core.publish()
    core.live.segments_change()
    for segment in dropped:
        core.forget_segment(segment)
        segment.delete(removed)
    remove_snapshots_before(core.directory, (<Segment>core.segments[0]).base_offset)
    core.live.segments_change()
    if removed:
        core.remover(removed)
    return 0


cdef int move_log_start(LogCore core, int64_t offset) except -1:
    """Move the log start durably; readers do not see the records below when this returns."""
    if offset <= core.log_start:
        return 0
    core.write_marks(max(core.recovery_point, offset), offset, False)
    core.log_start = offset
    core.epochs.truncate_from_start(offset)
    core.producers.log_start_incremented(core.directory, offset)
    return 0


cdef int64_t delete_records(LogCore core, int64_t before_offset) except -1:
    cdef int64_t high_watermark = core.high_watermark()
    if before_offset < 0 or before_offset > high_watermark:
        raise OffsetOutOfRangeError(f"{os.fsdecode(core.directory)}: records up to {before_offset} cannot be deleted: "
                                    f"the high watermark is {high_watermark}")
    try:
        move_log_start(core, before_offset)
        drop_segments_before(core, below_log_start(core))
        core.publish()
    except BaseException as error:
        core.fail(error)
    return core.log_start


cdef Py_ssize_t below_log_start(LogCore core) except -1:
    """Count of segments that hold nothing at or above the log start; never the active one."""
    cdef Py_ssize_t count = 0
    while count < len(core.segments) - 1 and (<Segment>core.segments[count]).next_base <= core.log_start:
        count += 1
    return count


cdef Py_ssize_t apply_retention(LogCore core, int64_t now_ms, int64_t segments_max, bint expire_producers) except -1:
    """Delete in Kafka's order: below the log start, by size, by time (UnifiedLog.deleteOldSegments). Only segments that
    end at or below the high watermark are deleted, from the front, and an empty active one never."""
    cdef Py_ssize_t dropped = 0
    try:
        if expire_producers:
            core.producers.remove_expired(now_ms)
        if segments_max <= 0:
            return 0                   # no index is read
        dropped = drop_prefix(core, min(below_log_start(core), segments_max))
        if core.config.delete:
            dropped += drop_prefix(core, min(size_breached(core), segments_max - dropped))
            dropped += drop_prefix(core, min(time_breached(core, now_ms), segments_max - dropped))
        core.publish()
    except BaseException as error:
        core.fail(error)
    return dropped


cdef Py_ssize_t drop_prefix(LogCore core, Py_ssize_t count) except -1:
    if count > 0:                      # else nothing changes: what was put off until the first change stays so
        core.enter_write()
        drop_segments_before(core, count)
    return count


cdef bint deletable(LogCore core, Segment segment) noexcept:
    """True when all of the segment is visible to consumers, and it is not the empty active one."""
    cdef int64_t end = segment.next_base if segment.next_base >= 0 else core.log_end
    return core.high_watermark() >= end and not (segment is core.active and segment.size == 0)


cdef Py_ssize_t size_breached(LogCore core) except -1:
    """Count of segments from the front that exceed retention.bytes."""
    cdef int64_t excess
    cdef Segment segment
    cdef Py_ssize_t count = 0
    if core.config.retention_bytes < 0:
        return 0
    excess = -core.config.retention_bytes
    for segment in core.segments:
        excess += segment.size
    for segment in core.segments:
        if excess - segment.size < 0 or not deletable(core, segment):
            break
        excess -= segment.size
        count += 1
    return count


cdef Py_ssize_t time_breached(LogCore core, int64_t now_ms) except -1:
    """Count of segments from the front older than retention.ms, by their largest timestamp."""
    cdef Segment segment
    cdef Py_ssize_t count = 0
    if core.config.retention_ms < 0:
        return 0
    for segment in core.segments:
        if not deletable(core, segment) or not outlived(core, segment, now_ms):
            break
        count += 1
    return count


cdef bint outlived(LogCore core, Segment segment, int64_t now_ms) except -1:
    cdef int64_t timestamp = segment.largest_timestamp()
    if timestamp < 0:                  # no record has a time: use the file's
        timestamp = segment.modified_ms()
    return now_ms - timestamp > core.config.retention_ms


cdef Slice cold_for_retention(LogCore core, int64_t now_ms, int64_t segments_max):
    cdef Segment segment
    cdef Slice cold
    if not core.config.delete or core.config.retention_ms < 0:
        return None
    for segment in core.segments[:segments_max]:
        if not deletable(core, segment):
            return None
        cold = cold_for_largest(core, segment)
        if cold is not None or not outlived(core, segment, now_ms):
            return cold
    return None
