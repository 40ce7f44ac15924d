"""Clocks for compiled code. Decisions about which records are kept never use the monotonic clocks.

All compiled modules read the time here, so that a simulation can set it (`simulate`). A read of a clock that is not set
costs one more predictable branch. Only the measurements of real waits in `_c` (flushes, sleeps) read the system's clock
themselves.
"""

from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_THREAD_CPUTIME_ID, clock_gettime, timespec

# The time of a simulation; the first one is below 0 while the system's clocks are in use.
cdef int64_t simulated_ns
cdef int64_t simulated_wall_ms


# Milliseconds since the epoch: the time stamp of records.
cdef inline int64_t clock_ms() noexcept nogil:
    cdef timespec now
    if simulated_ns >= 0:
        return simulated_wall_ms
    clock_gettime(CLOCK_REALTIME, &now)
    return now.tv_sec * 1000 + now.tv_nsec // 1_000_000


# The clock of all deadlines, which never goes back.
cdef inline int64_t monotonic_ns() noexcept nogil:
    cdef timespec now
    if simulated_ns >= 0:
        return simulated_ns
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec * 1_000_000_000 + now.tv_nsec


# Processor time of this thread, without the time in which it waited. A simulated processor needs none.
cdef inline int64_t thread_ns() noexcept nogil:
    cdef timespec now
    if simulated_ns >= 0:
        return simulated_ns
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now)
    return now.tv_sec * 1_000_000_000 + now.tv_nsec


cdef inline int64_t monotonic_ms() noexcept nogil:
    return monotonic_ns() // 1_000_000
