"""Compaction's output: a segment under other names, and the swap that replaces its sources."""

from libc.stdint cimport int64_t, uint8_t

from kraft_native.file.buffer cimport Scratch
from kraft_native.log.core cimport LogCore
from kraft_native.segment.index cimport OffsetIndex, TimeIndex

cdef enum:
    INDEX_MARKS_MAX = 256


# An index entry to be added later, with the GIL.
cdef struct IndexMark:
    int64_t last_offset
    int64_t position
    int64_t max_timestamp
    int64_t max_timestamp_offset


cdef class SegmentWriter:
    cdef bytes directory
    cdef bytes path                    # of the .log.cleaned file
    cdef int64_t base_offset
    cdef int64_t index_interval_bytes
    cdef int fd
    cdef readonly int64_t size         # bytes of batches given
    cdef int64_t written               # of them in the file
    cdef int64_t sent                  # of these being sent to the device
    cdef int64_t reserved_to           # 0: no space was reserved
    cdef int64_t source_bytes          # upper bound of the output

    cdef Scratch buffer                # the batches after these
    cdef const uint8_t* run            # and those after these, still in the caller's memory
    cdef Py_ssize_t run_bytes
    cdef int64_t bytes_since_index
    cdef int64_t max_timestamp
    cdef int64_t max_timestamp_offset
    cdef OffsetIndex offset_index
    cdef TimeIndex time_index
    cdef IndexMark marks[INDEX_MARKS_MAX]
    cdef int mark_count                # at INDEX_MARKS_MAX: call `index` before the next `put`

    # Begins the files; leftovers of an earlier attempt are removed. `source_bytes`: of its sources.
    cdef int begin(self, bytes directory, int64_t base_offset, int64_t index_interval_bytes,
                   int64_t source_bytes) except -1
    # Adds one batch. Its memory must stay until `settle`. 0 or -errno.
    cdef int put(self, const uint8_t* batch, Py_ssize_t size, int64_t last_offset,
                 int64_t max_timestamp) noexcept nogil
    # Copies or writes what was put: its memory may then change. 0 or -errno.
    cdef int settle(self) noexcept nogil
    cdef int index(self) except -1
    # Completes the files and makes them durable. `aborted`: entries of the transaction index; `modified_ns`: the time
    # of modification that the .log file gets.
    cdef int finish(self, list aborted, int64_t modified_ns) except -1
    # Removes the files.
    cdef int drop(self) except -1
    cdef int write_buffer(self) noexcept nogil
    cdef int write_out(self, const uint8_t* data, Py_ssize_t size) noexcept nogil
    cdef int reserve(self, int64_t end) noexcept nogil
    cdef void close(self) noexcept


# Replaces `sources`, neighbours in the log, by a finished output. From the first rename on any failure makes the log
# read-only; the next open drops the output or completes the swap.
cdef int swap_segments(LogCore core, SegmentWriter writer, list sources) except -1
