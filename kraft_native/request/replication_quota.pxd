"""Rate limit for copies of throttled replicas."""

from libc.stdint cimport int32_t, int64_t


cdef class ReplicationQuota:
    cdef readonly int64_t rate             # bytes per second
    cdef readonly int64_t bytes_total      # counted since the start
    cdef int32_t samples
    cdef int64_t sample_ms
    cdef int64_t* counted                  # bytes of each sample
    cdef int64_t* numbers                  # number of each sample: times `sample_ms` it began

    cpdef int record(self, int64_t bytes_count, int64_t now_ms) except -1
    cpdef bint exceeded(self, int64_t now_ms) noexcept
    # Milliseconds until it is not exceeded any more, if nothing is counted meanwhile; 0: it is not exceeded.
    cpdef int64_t wait_ms(self, int64_t now_ms) noexcept
    cpdef int64_t throttle_ms(self, int64_t now_ms) noexcept
    cpdef int64_t window_bytes(self) noexcept
    cdef bint any_counted(self, int64_t now_ms) noexcept
    # Bytes of the samples in the window, and the time since the oldest of them began.
    cdef int64_t look(self, int64_t now_ms, int64_t* elapsed_ms) noexcept nogil
