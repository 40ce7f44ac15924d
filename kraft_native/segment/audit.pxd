"""Examination of one `.log` file that another process may be writing; see `audit.pyx`."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kraft_native.base.fault cimport Fault
from kraft_native.base.span cimport Span
from kraft_native.batch.batch cimport BatchHeader, BatchLook
from kraft_native.file.buffer cimport Scratch


cdef struct AuditEvent:
    int kind
    int64_t position
    int64_t offset
    int64_t value


cdef class SegmentAudit:
    cdef readonly bytes path
    cdef readonly int64_t base_offset
    cdef readonly int64_t offset_end            # offsets of this segment are below it
    cdef readonly int64_t end_bytes             # examined up to here
    cdef readonly int64_t position              # start of the next stretch

    cdef readonly int64_t next_offset           # smallest offset that may come next
    cdef readonly int64_t stretch_position      # the last stretch: sound batches that lie back to back
    cdef readonly int64_t stretch_bytes
    cdef readonly list damage  # type: list[tuple[int, int, int, int, str]]
    cdef readonly int64_t batch_count
    cdef readonly int64_t record_count
    cdef readonly int64_t control_batch_count
    cdef readonly int64_t sound_bytes
    cdef readonly int64_t min_timestamp_ms      # over the batches' base timestamps; -1: none
    cdef readonly int64_t max_timestamp_ms
    cdef int64_t codec_batches[8]
    cdef readonly int64_t reserved_bytes        # zeros at the end of the file that are no batch yet
    cdef readonly bint held_back                # the last step stopped before a batch that reaches `until_offset`
    cdef int64_t until_offset
    cdef bint zeros_end
    cdef bint check_crc
    cdef bint damaged
    cdef int fd
    cdef Scratch window
    cdef int64_t window_position
    cdef int64_t window_bytes
    cdef AuditEvent* events
    cdef int event_count
    cdef int32_t epoch                          # of the last batch, -2 before the first
    cdef int64_t data_producer                  # of the last transactional data batch, -1: another batch followed
    cdef bytes offset_entries
    cdef const uint8_t* offset_data
    cdef int64_t offset_slot, offset_slots
    cdef bytes time_entries
    cdef const uint8_t* time_data
    cdef int64_t time_slot, time_slots

    cdef int fill(self, int64_t bytes_wanted) except -1
    cdef int64_t walk(self, BatchHeader* h, BatchLook* look, Fault* fault) noexcept nogil
    cdef void count(self, int64_t position, Span data, const BatchHeader* h) noexcept nogil
    cdef void check_offset_entries(self, int64_t position, const BatchHeader* h) noexcept nogil
    cdef void check_time_entries(self, const BatchHeader* h) noexcept nogil
    cdef void note(self, int kind, int64_t position, int64_t offset, int64_t value) noexcept nogil
    cdef void note_control(self, int64_t position, Span data, const BatchHeader* h) noexcept nogil
    cdef int check_offsets(self, const BatchHeader* h, Fault* fault) noexcept nogil
    cdef int step_large(self, const BatchHeader* h) except -1
    cdef bint only_zeros_left(self) except -1
    cdef int note_damage(self, const Fault* fault) except -1
    cdef int skip_entries(self, int64_t position, int64_t offset) except -1
