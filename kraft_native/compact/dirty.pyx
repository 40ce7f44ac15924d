"""Compaction: the part of a log to clean, and its groups of segments (Kafka's LogCleanerManager).

The owner's thread, except for `group_segments`.
"""

import os

cimport cython
from libc.stdint cimport int64_t

from kraft_native.base.limits cimport INT32_MAX_VALUE
from kraft_native.segment.config cimport LogConfig
from kraft_native.segment.segment cimport Segment

from kraft_native.base.errors import CorruptFileError, StorageError
from kraft_native.file.file_io import is_unreadable
from kraft_native.segment.checkpoints import read_log_state

cdef enum:
    GROUP_SEGMENTS_MAX = 128

STATE_KEY = "first_dirty_offset"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"


@cython.final
cdef class Dirty:
    cdef double ratio(self) noexcept:
        if self.dirty_bytes == 0:
            return 0.0
        return self.dirty_bytes / <double>(self.clean_bytes + self.dirty_bytes)


cdef Dirty find_dirty(LogCore core, int64_t now_ms):
    """Kafka's LogCleanerManager.cleanableOffsets, maxCompactionDelay and calculateCleanableBytes."""
    cdef Dirty dirty = Dirty()
    cdef Segment segment
    cdef int64_t limit = min(core.last_stable_offset(), core.active.base_offset)
    dirty.first = core.first_dirty
    if not core.log_start <= dirty.first <= core.log_end:
        dirty.first = core.log_start
    for segment in core.segments[core.slot_of(dirty.first):len(core.segments) - 1]:
        if core.config.min_compaction_lag_ms > 0 and segment.base_offset < limit:
            if segment.largest_timestamp() > now_ms - core.config.min_compaction_lag_ms:
                limit = segment.base_offset
        # Only evaluated where it can be true: it reads the segment's first batch.
        if not dirty.overdue and core.config.max_compaction_lag_ms < now_ms and segment.size > 0:
            dirty.overdue = 0 < segment.rolling_timestamp() < now_ms - core.config.max_compaction_lag_ms
    segment = core.segments[core.slot_of(max(limit, dirty.first))]
    dirty.upper = segment.base_offset
    for segment in core.segments:
        if segment.base_offset < dirty.first:
            dirty.clean_bytes += segment.size
        if segment.base_offset < dirty.upper and segment.next_base > dirty.first:
            dirty.dirty_bytes += segment.size
    return dirty


cdef bint due(LogCore core, Dirty dirty) noexcept:
    return dirty.dirty_bytes > 0 and (dirty.overdue or dirty.ratio() > core.config.min_cleanable_dirty_ratio)


cdef int64_t noted_first_dirty(bytes directory, object shared) except? -2:
    """Offset of our own record, else of a Kafka broker's in the directory above. A malformed one counts as missing: all
    is dirty then, which only costs time."""
    try:
        state = read_log_state(directory)
        if state is not None and STATE_KEY in state.extra:
            return max(int(state.extra[STATE_KEY]), -1)
        topic, _, partition = os.path.basename(os.fsdecode(directory)).rpartition("-")
        path = os.path.join(os.path.dirname(os.fsdecode(directory)), CLEANER_CHECKPOINT)
        if topic and partition.isascii() and partition.isdigit():
            return (shared.read(path) or {}).get((topic, int(partition)), -1)
    except (CorruptFileError, ValueError):
        return -1
    except StorageError as error:
        if not is_unreadable(error):
            raise
    return -1


cdef int64_t file_bytes(Segment segment, bytes suffix) except -1:
    path = segment.path[:len(segment.path) - 4] + suffix
    return os.path.getsize(path) if os.path.exists(path) else 0


cdef list group_segments(LogConfig config, list segments):
    """Neighbours that together stay within segment.bytes, segment.index.bytes and the range of relative offsets; not
    too many, because their removal is one step of the owner's thread."""
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
                len(group) < GROUP_SEGMENTS_MAX
                and size + segment.size <= config.segment_bytes
                and index_size + index_bytes <= config.index_bytes_max
                and time_size + time_bytes <= config.index_bytes_max
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
