"""Compaction: the part of a log to clean, and its groups of segments."""

from libc.stdint cimport int64_t

from kraft_native.log.core cimport LogCore
from kraft_native.segment.config cimport LogConfig


cdef class Dirty:
    """The part of a log that can be cleaned now: dirty from `first`, and all of it below `upper`, a segment's base."""
    cdef int64_t first
    cdef int64_t upper
    cdef int64_t dirty_bytes
    cdef int64_t clean_bytes
    cdef bint overdue                  # a record in it is older than max.compaction.lag.ms

    cdef double ratio(self) noexcept


# Owner's thread.
cdef Dirty find_dirty(LogCore core, int64_t now_ms)
# Whether Kafka would pick the log for cleaning.
cdef bint due(LogCore core, Dirty dirty) noexcept
# Start of the dirty part when the log was last open, -1 without a record. `shared` as for `read_marks`.
cdef int64_t noted_first_dirty(bytes directory, object shared) except? -2
# Neighbours of `segments`, sealed ones, that together stay within the limits of one. Any thread.
cdef list group_segments(LogConfig config, list segments)
cdef int64_t bytes_of(list segments) except -1
