"""Clocks for compiled code. Decisions about which records are kept never use the monotonic clocks."""

from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_THREAD_CPUTIME_ID, clock_gettime, timespec


# Milliseconds since the epoch: the time stamp of records.
cdef inline int64_t clock_ms() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_REALTIME, &now)
    return now.tv_sec * 1000 + now.tv_nsec // 1_000_000


# The clock of all deadlines, which never goes back.
cdef inline int64_t monotonic_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec * 1_000_000_000 + now.tv_nsec


# Processor time of this thread, without the time in which it waited.
cdef inline int64_t thread_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now)
    return now.tv_sec * 1_000_000_000 + now.tv_nsec


cdef inline int64_t monotonic_ms() noexcept nogil:
    return monotonic_ns() // 1_000_000
