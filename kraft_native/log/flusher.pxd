"""Group commit for compiled callers (`_c/log/flusher.h` has the rules)."""

from libc.stdint cimport int64_t

cdef extern from "log/flusher.h" nogil:
    ctypedef struct kf_flusher:
        pass
    ctypedef struct kf_flush_handle:
        int failed_fd
    int64_t kf_flush_durable(const kf_flush_handle* handle)
    int kf_flush_error(const kf_flush_handle* handle)


# Nanoseconds of a caller's timeout in seconds, -1 for None. InvalidArgumentError when it is no time.
cdef int64_t timeout_to_ns(object timeout) except -2


cdef class Flusher:
    """One flusher thread, shared by any number of logs."""
    cdef kf_flusher* flusher
    cdef readonly int64_t bytes_trigger
    cdef readonly object linger_us  # type: int | None

    cpdef FlushHandle register(self, object directory, int64_t durable=*)


cdef class FlushHandle:
    """One log's side of a flusher. The owner's thread submits; any thread may read, request a flush and wait."""
    cdef kf_flush_handle* handle
    cdef Flusher flusher           # keeps the thread's memory alive
    cdef readonly object directory  # type: str | bytes

    # Bytes up to end_offset were written, `size` of them new, the last ones to `fd`. < 100 ns while a flush runs. The
    # descriptor stays open until durable_end() >= end_offset, or until `forget` or `close` returned. Returns -errno
    # when nothing was accepted: the log failed earlier or was closed, or this process is a fork.
    cdef int put(self, int fd, int64_t end_offset, int64_t size) noexcept nogil
    # Makes the directory's entries durable before anything that is put later.
    cdef int put_directory(self, const char* path) noexcept nogil
    # All below it is durable. Moves forward only, except by `reset`.
    cdef int64_t durable_end(self) noexcept nogil
    # errno of the first failure, 0 when there was none. Never goes back to 0.
    cdef int failure(self) noexcept nogil
    # Starts the flush that reaches end_offset at once; does not block.
    cdef int request_flush(self, int64_t end_offset) noexcept nogil
    # Requests a flush and blocks, for at most timeout_ns (< 0: without limit). 0, -ETIMEDOUT, -ECANCELED (truncated
    # away), -ESHUTDOWN (closed), -ECHILD (a fork), or the failure's -errno.
    cdef int wait_for(self, int64_t end_offset, int64_t timeout_ns) noexcept nogil
    # After a truncation. Does not block.
    cdef int reset_to(self, int64_t end_offset) noexcept nogil
    # `fd` is about to be closed and its bytes no longer count. Blocks while it is being flushed.
    cdef int forget_file(self, int fd) noexcept nogil
    # Raises the exception for a negative result of the functions above.
    cdef int raise_result(self, int result) except -1
