from libc.stdint cimport int64_t

cimport cython


@cython.final
cdef class FetchChain:
    cdef object log, append, on_accepted, more
    cdef bint is_open, is_known, has_left

    cdef bint is_sent(self) except -1
    cpdef bint take(self, sender, like, int64_t high_watermark, records) except -1
