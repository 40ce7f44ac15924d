"""Leader-epoch cache: which epoch began at which offset (KIP-101, KIP-279), kept in `leader-epoch-checkpoint`."""

from libc.stdint cimport int32_t, int64_t


cdef class LeaderEpochCache:
    cdef readonly object path
    cdef list epochs               # parallel, both strictly increasing
    cdef list starts

    cdef int32_t latest(self) except? -2                       # -1 when empty
    # Notes that `epoch` starts at `start_offset`; entries it contradicts are dropped first; writes the file if changed.
    cdef int assign(self, int32_t epoch, int64_t start_offset) except -1
    cdef int truncate_from_end(self, int64_t end_offset) except -1      # drops entries starting at >= end_offset
    cdef int truncate_from_start(self, int64_t start_offset) except -1  # keeps the epoch in force at start_offset
    # end_offset_for(epoch, log_end) -> (epoch, end offset) as OffsetForLeaderEpoch answers, (-1, -1) when undefined
    cpdef tuple end_offset_for(self, int32_t epoch, int64_t log_end)
    cpdef int32_t epoch_at(self, int64_t offset) except? -2             # -1 when none
