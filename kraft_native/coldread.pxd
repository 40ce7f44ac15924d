"""Data that is not in memory, read off the loop's thread."""

from libc.stdint cimport int64_t

from kraft_native.buffer cimport Slice

cdef extern from "coldread.h" nogil:
    ctypedef struct kf_cold_reader:
        pass


cdef class Warming:
    """Something that waits for its data. Extend it."""
    cdef int warmed(self) except -1        # one of the ranges that were submitted for it is in memory


cdef class ColdRange:
    cdef Slice data                        # pinned until it was read
    cdef Warming owner


cdef class ColdReader:
    """The thread. Loop thread only."""
    cdef kf_cold_reader* reader
    cdef readonly int64_t pending_max
    cdef readonly int64_t pending_count
    cdef readonly int64_t ranges_total     # since it was made
    cdef readonly int64_t bytes_total

    # Has the bytes read; `owner.warmed` is called when they are there. False when too many wait already.
    cdef bint submit(self, Slice data, Warming owner) except -1
    cdef ColdRange take(self)
