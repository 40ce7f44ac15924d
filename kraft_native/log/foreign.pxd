"""One segment of a log that another process may own: read by pread only, nothing is trusted unchecked."""

from libc.stdint cimport int64_t, uint8_t

from kraft_native.base.fault cimport Fault
from kraft_native.batch.batch cimport BatchHeader, BatchLook
from kraft_native.file.buffer cimport Scratch, Slice


# A walk over batches: its position, and the smallest base offset that the next batch may have.
cdef struct Walk:
    int64_t position
    int64_t offset_min
    BatchHeader h                  # of the batch at `position`, when the walk stopped at one


cdef class ForeignSegment:
    """Open files of one segment. Used by one thread at a time; closed by its opener.

    The caller passes the `end` of the readable bytes, because the owner may be writing past it. It discards the object
    when the owner reports that it truncated or replaced files.
    """
    cdef int fd
    cdef int index_fd              # -1: none exists
    cdef readonly bytes directory
    cdef readonly bytes path
    cdef readonly int64_t base_offset
    cdef readonly int64_t next_base        # of the next segment, -1: this is the last
    cdef readonly int64_t file_bytes       # of the .log file when it was opened
    cdef int64_t index_entries
    cdef Scratch window            # bytes of the file from window_position on
    cdef int64_t window_position
    cdef int64_t cursor_offset     # start of the batch after the last one that was read, -1: nothing was read yet
    cdef int64_t cursor_position
    cdef Fault fault               # of the last check that found damage

    # Whole batches from the one that holds `offset`, all below `limit`, CRC checked; the first whatever max_bytes.
    # None: the segment ends before `offset`. An empty slice: the limit comes first. CorruptLogError, StorageError.
    # `log_end` bounds the offsets of the last segment.
    cdef Slice read(self, int64_t offset, int64_t max_bytes, int64_t limit, int64_t end, int64_t log_end)
    # Offset from which to search for the first record with timestamp >= target, by the time index. `beyond`: all
    # records of the segment are older, if the index of a sealed segment can be trusted.
    cdef int64_t time_start(self, int64_t target, bint sealed, bint* beyond) except -1

    cdef int64_t locate(self, int64_t offset, int64_t end) except -2
    cdef int64_t index_hint(self, int64_t offset, int64_t end) except -1
    cdef bint hint_is_sound(self, int64_t position, int64_t entry_offset, int64_t end) except -1
    cdef BatchLook walk(self, Walk* w, int64_t end, int64_t until_offset, bint check_crc) except *
    cdef BatchLook walk_window(self, Walk* w, int64_t end, int64_t until_offset, bint check_crc,
                               int64_t* needed) noexcept nogil
    cdef int64_t fill(self, int64_t position, int64_t size) except -1
    cdef object damaged(self, int64_t position, int64_t offset)
    cdef void close(self) noexcept


cdef ForeignSegment foreign_open(bytes directory, int64_t base_offset, int64_t next_base)
