"""Removal of records: from a log's end (truncation), from its front (retention, record deletion)."""

from libc.stdint cimport int64_t

from kraft_native.file.buffer cimport Slice
from kraft_native.log.core cimport LogCore
from kraft_native.segment.segment cimport Segment


# Cuts to `offset`, or to the batch boundary below it. True when anything was removed.
cdef bint truncate_to(LogCore core, int64_t offset) except -1
# Drops everything; the log is empty and starts at `offset`.
cdef int truncate_fully(LogCore core, int64_t offset) except -1
# Deletes whole segments by the rules of retention; returns their count.
cdef Py_ssize_t apply_retention(LogCore core, int64_t now_ms, int64_t segments_max, bint expire_producers) except -1
# The next data that this would read and that is not in memory, for a segment's times; None when nothing is left.
cdef Slice cold_for_retention(LogCore core, int64_t now_ms, int64_t segments_max)
# Moves the log start, at most to the high watermark, and deletes segments that lie below it. Returns the log start.
cdef int64_t delete_records(LogCore core, int64_t before_offset) except -1

cdef int drop_segments_from(LogCore core, Py_ssize_t slot) except -1
cdef int drop_segments_before(LogCore core, Py_ssize_t slot) except -1
cdef int move_log_start(LogCore core, int64_t offset) except -1
cdef int replay_tail(LogCore core) except -1
