"""Look-ups in a log: batches by offset, offsets by time, aborted transactions."""

from libc.stdint cimport int32_t, int64_t

from kraft_native.batch.batch cimport BatchHeader
from kraft_native.file.buffer cimport Slice
from kraft_native.log.core cimport LogCore
from kraft_native.segment.index_file cimport IndexFile
from kraft_native.segment.segment cimport Segment


# Whole batches of one segment from the one that holds `offset`, below the limit of `isolation`. OffsetOutOfRangeError
# outside [log start, log end]; CorruptLogError where `offset` cannot be read.
cdef Slice read_from(LogCore core, int64_t offset, int64_t max_bytes, int isolation)

# The next data that `read_from` would read, pinned, if some of it is not in memory: first the indexes of a segment that
# was not used yet, then its bytes. None when everything is. The tail of the active segment was just written and is
# assumed to be in memory. Touches nothing that is not in memory.
cdef Slice cold_extent(LogCore core, int64_t offset, int64_t max_bytes)
# The bytes of a segment from `start` to `end`, by the same rules.
cdef Slice cold_part(LogCore core, Segment segment, int64_t start, int64_t end)
cdef Slice cold_indexes(Segment segment)
cdef Slice cold_index(IndexFile index)

# (producer id, first offset, last offset, last stable offset) of the aborted transactions that overlap the range.
cdef list aborted_between(LogCore core, int64_t start_offset, int64_t end_offset)

# The first record with timestamp >= target and offset >= start_offset; the first record that has the largest timestamp.
# (offset, timestamp, leader epoch), or None.
cdef tuple find_time(LogCore core, int64_t target, int64_t start_offset)
cdef tuple find_max_timestamp(LogCore core)
# The next data that these two would read and that is not in memory; None when nothing is left. Files that cannot be
# read raise what the look-up raises.
cdef Slice cold_for_time(LogCore core, int64_t target, int64_t start_offset)
cdef Slice cold_for_max_timestamp(LogCore core)
cdef Slice cold_for_largest(LogCore core, Segment segment)
cdef Slice cold_around(LogCore core, Segment segment, int64_t target, int64_t start_offset)
cdef Segment with_max_timestamp(LogCore core)
cdef tuple find_in_segment(LogCore core, Segment segment, int64_t target, int64_t start_offset)
cdef bint find_in_batch(LogCore core, Segment segment, int64_t position, const BatchHeader* h, int64_t target,
                        int64_t start_offset, int64_t* offset, int64_t* timestamp) except -1
