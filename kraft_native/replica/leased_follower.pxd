from libc.stdint cimport int64_t

cimport cython


@cython.final
cdef class LeasedFollower:
    cdef object log, append, on_accepted
    cdef int64_t end_offset, high_watermark
    cdef bint is_leased, is_known, is_outstanding

    cdef bint is_sent(self) except -1
    cpdef bint accept(self, sender, int64_t high_watermark, records) except -1
