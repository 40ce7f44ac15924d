"""What time it is, for compiled code. Nothing that decides which records are kept asks the monotonic clocks."""

from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_THREAD_CPUTIME_ID, clock_gettime, timespec


# Milliseconds since the epoch: what records are stamped with.
cdef inline int64_t clock_ms() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_REALTIME, &now)
    return now.tv_sec * 1000 + now.tv_nsec // 1_000_000


# The clock of all deadlines, which never goes back.
cdef inline int64_t monotonic_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec * 1_000_000_000 + now.tv_nsec


# Processor time of this thread: what it waited for others is not in it.
cdef inline int64_t thread_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now)
    return now.tv_sec * 1_000_000_000 + now.tv_nsec


cdef inline int64_t monotonic_ms() noexcept nogil:
    return monotonic_ns() // 1_000_000
