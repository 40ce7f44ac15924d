"""Offset index and time index of one segment, in Kafka's file formats, both directions.

Each has two forms in one class: *growing* (entries in memory, appended to the file in groups; the active segment) and
*sealed* (file mapped at its first use). Look-ups are nogil; on 1.3 M entries one costs about a cache miss.

The nogil functions read only loaded data: call `load()` before them (it costs one test once loaded).
"""

from libc.stdint cimport int64_t

from kraft_native.segment.index_file cimport BlockSearch, EntryFault, IndexFile


cdef class OffsetIndex(IndexFile):
    """Entries (relative offset of a batch's last record, position of that batch), both strictly increasing."""

    # Position to start scanning from for `offset`: of the last entry whose offset <= the target; 0 when none.
    # `entry_offset` (may be NULL) gets that entry's absolute offset, base_offset when none.
    cdef int64_t lookup(self, int64_t offset, int64_t* entry_offset) noexcept nogil
    # Offset of the first entry whose position >= `position`; -1 when none. An offset that bytes read up to `position`
    # certainly do not reach, though not the smallest such (Kafka's fetchUpperBoundOffset).
    cdef int64_t upper_bound_offset(self, int64_t position) noexcept nogil
    cdef int64_t last_offset(self) noexcept nogil              # base_offset when empty
    cpdef int append(self, int64_t last_offset, int64_t position) except -1
    cpdef int truncate_to(self, int64_t offset) except -1      # drops entries with offset >= the target
    cdef Py_ssize_t slot_for(self, int64_t offset) noexcept nogil
    # The two halves of `slot_for`. Other work may run between them: the second needs the bytes that the first
    # prefetches.
    cdef void begin_search(self, int64_t offset, BlockSearch* search) noexcept nogil
    cdef Py_ssize_t end_search(self, const BlockSearch* search) noexcept nogil
    cdef EntryFault scan(self, int64_t log_size, int64_t next_offset, Py_ssize_t* at) noexcept nogil


cdef class TimeIndex(IndexFile):
    """Entries (largest timestamp so far, relative offset of the last record of the batch that has it), increasing."""

    # Offset from which to scan for the first record with timestamp >= target: of the last entry whose timestamp <=
    # target, like Kafka's TimeIndex.lookup; base_offset when none.
    cdef int64_t lookup(self, int64_t timestamp) noexcept nogil
    cdef int64_t last_timestamp(self) noexcept nogil           # -1 when empty
    cdef int64_t last_offset(self) noexcept nogil              # base_offset when empty
    # 1 when an entry was added, 0 when the last one has that timestamp already. `skip_full_check`: on roll and close.
    cpdef int maybe_append(self, int64_t timestamp, int64_t offset, bint skip_full_check=*) except -1
    cpdef int truncate_to(self, int64_t offset) except -1      # drops entries with offset >= the target
    cdef Py_ssize_t slot_for(self, int64_t timestamp) noexcept nogil
    cdef void begin_search(self, int64_t timestamp, BlockSearch* search) noexcept nogil
    cdef Py_ssize_t end_search(self, const BlockSearch* search) noexcept nogil
    cdef int64_t offset_in(self, Py_ssize_t slot) noexcept nogil    # -1: no entry, so base_offset
    cdef EntryFault scan(self, int64_t next_offset, Py_ssize_t* at) noexcept nogil
