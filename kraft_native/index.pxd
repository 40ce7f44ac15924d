"""Offset index and time index of one segment, in Kafka's file formats, both directions.

Each has two forms in one class: *growing* (entries in memory, appended to the file in groups; the active segment) and
*sealed* (file mapped when first asked). Look-ups are nogil and take < 100 ns on 1.3 M entries.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kraft_native.buffer cimport Mapping, Scratch


cdef class OffsetIndex:
    """Entries (relative offset of a batch's last record, position of that batch), both strictly increasing."""
    cdef readonly object path
    cdef readonly int64_t base_offset
    cdef Scratch growing           # entries as in the file; None when sealed
    cdef Mapping sealed            # None until first used
    cdef const uint8_t* entries
    cdef Py_ssize_t count
    cdef Py_ssize_t written        # entries already in the file (growing)

    # Position to start scanning from for `offset`: of the last entry whose offset <= the target; 0 when none.
    # `entry_offset` (may be NULL) gets that entry's absolute offset, base_offset when none.
    cdef int64_t lookup(self, int64_t offset, int64_t* entry_offset) noexcept nogil
    cdef int append(self, int64_t last_offset, int64_t position) except -1
    cdef int truncate_to(self, int64_t offset) except -1       # drops entries with offset >= the target
    cdef int load(self) except -1                              # maps a sealed file, on first use
    cdef int flush(self, bint durable) except -1               # writes what is pending to the file
    cdef int seal(self) except -1                              # flush, cut the file to size, drop the memory


cdef class TimeIndex:
    """Entries (largest timestamp so far, relative offset of the last record of the batch that has it), increasing."""
    cdef readonly object path
    cdef readonly int64_t base_offset
    cdef Scratch growing
    cdef Mapping sealed
    cdef const uint8_t* entries
    cdef Py_ssize_t count
    cdef Py_ssize_t written

    # Offset from which to scan for the first record with timestamp >= target: of the last entry whose timestamp
    # < = target per Kafka's TimeIndex.lookup; base_offset when none.
    cdef int64_t lookup(self, int64_t timestamp) noexcept nogil
    cdef int64_t last_timestamp(self) noexcept nogil           # -1 when empty
    cdef int64_t last_offset(self) noexcept nogil              # base_offset when empty
    cdef int maybe_append(self, int64_t timestamp, int64_t offset) except -1
    cdef int truncate_to(self, int64_t offset) except -1
    cdef int load(self) except -1
    cdef int flush(self, bint durable) except -1
    cdef int seal(self) except -1
