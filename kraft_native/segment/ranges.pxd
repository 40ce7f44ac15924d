"""A set of half-open integer ranges: the checked bytes of a file."""

from libc.stdint cimport int64_t


cdef struct Range:
    int64_t start
    int64_t end


cdef class RangeSet:
    """Disjoint, ascending, never touching. Any thread that owns the object."""
    cdef Range* ranges
    cdef Py_ssize_t count
    cdef Py_ssize_t capacity

    cdef Py_ssize_t after(self, int64_t position) noexcept nogil
    # End of the range that contains `position`, or `position` itself when none does.
    cdef int64_t covered_to(self, int64_t position) noexcept nogil
    # Start of the first range at or after `position`; `otherwise` without one.
    cdef int64_t next_start(self, int64_t position, int64_t otherwise) noexcept nogil
    cdef int add(self, int64_t start, int64_t end) except -1
    cdef void cut(self, int64_t end) noexcept nogil            # drops all at or after `end`
