"""A set of half-open integer ranges.

A segment keeps one for the bytes whose checksum was verified. It nearly always has one range (a log is appended to, or
read from front to back); random reads add a few more.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memmove

cimport cython


@cython.final
cdef class RangeSet:
    def __cinit__(self):
        self.ranges = NULL
        self.count = 0
        self.capacity = 0

    def __dealloc__(self):
        free(self.ranges)

    cdef Py_ssize_t after(self, int64_t position) noexcept nogil:
        """Index of the first range that ends at or after `position`."""
        cdef Py_ssize_t low = 0, high = self.count, middle
        if high > 0 and self.ranges[high - 1].start <= position:
            return high - 1 if self.ranges[high - 1].end >= position else high
        while low < high:
            middle = (low + high) >> 1
            if self.ranges[middle].end < position:
                low = middle + 1
            else:
                high = middle
        return low

    cdef int64_t covered_to(self, int64_t position) noexcept nogil:
        cdef Py_ssize_t i = self.after(position)
        if i < self.count and self.ranges[i].end == position:
            i += 1
        if i < self.count and self.ranges[i].start <= position:
            return self.ranges[i].end
        return position

    cdef int64_t next_start(self, int64_t position, int64_t otherwise) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(self.after(position), self.count):
            if self.ranges[i].start >= position:
                return self.ranges[i].start
        return otherwise

    cdef int add(self, int64_t start, int64_t end) except -1:
        cdef Py_ssize_t first, last, capacity
        cdef void* grown
        if start >= end:
            return 0
        first = self.after(start)
        last = first                   # ranges [first, last) touch the new one
        while last < self.count and self.ranges[last].start <= end:
            last += 1
        if last > first:
            self.ranges[first].start = min(self.ranges[first].start, start)
            self.ranges[first].end = max(self.ranges[last - 1].end, end)
            memmove(&self.ranges[first + 1], &self.ranges[last], <size_t>(self.count - last) * sizeof(Range))
            self.count -= last - first - 1
            return 0
        if self.count == self.capacity:
            capacity = max(4, 2 * self.capacity)
            grown = realloc(self.ranges, <size_t>capacity * sizeof(Range))
            if grown == NULL:
                raise MemoryError(f"{capacity} ranges")
            self.ranges = <Range*>grown
            self.capacity = capacity
        memmove(&self.ranges[first + 1], &self.ranges[first], <size_t>(self.count - first) * sizeof(Range))
        self.ranges[first].start = start
        self.ranges[first].end = end
        self.count += 1
        return 0

    cdef void cut(self, int64_t end) noexcept nogil:
        while self.count > 0 and self.ranges[self.count - 1].start >= end:
            self.count -= 1
        if self.count > 0:
            self.ranges[self.count - 1].end = min(self.ranges[self.count - 1].end, end)

    def __contains__(self, position: int) -> bool:
        return self.covered_to(position) > position

    def as_list(self) -> list[tuple[int, int]]:
        """(start, end) pairs, ascending."""
        return [(self.ranges[i].start, self.ranges[i].end) for i in range(self.count)]

    def insert(self, start: int, end: int) -> None:
        """Add [start, end)."""
        self.add(start, end)

    def truncate(self, end: int) -> None:
        """Drop all at or after `end`."""
        self.cut(end)
