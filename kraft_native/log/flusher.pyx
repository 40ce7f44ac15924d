"""Group commit: a thread without the interpreter lock makes written bytes durable, many appends per system call.

An owner writes, submits (descriptor, end offset, byte count) and continues. The thread flushes one log at a time; the
next flush of a log covers all that is submitted for it meanwhile. With `linger_us` 0 an idle thread flushes at once.
With a larger value it lets a log gather until `bytes_trigger` bytes are pending, the oldest pending byte is `linger_us`
old, or a caller requests or waits for a flush. With None age does not count. `_c/log/flusher.h` has the rules,
`docs/internals/engine-modules.md` the place in the engine.
"""

import os

from libc.math cimport isfinite

cimport cython
from cpython.exc cimport PyErr_CheckSignals

from kraft_native.file.file_io cimport file_datasync, file_sync_dir

from kraft_native.base.errors import InvalidArgumentError, LogClosedError, OperationError, StorageError

cdef extern from "<errno.h>" nogil:
    enum:
        ECANCELED
        ECHILD
        ESHUTDOWN
        ETIMEDOUT

cdef extern from "log/flusher.h" nogil:
    ctypedef int (*kf_datasync_fn)(int fd)
    ctypedef int (*kf_sync_directory_fn)(const char* path)
    ctypedef struct kf_flush_statistics:
        int64_t submissions
        int64_t flushes
        int64_t syncs
        int64_t bytes
        int64_t busy_ns
    kf_flusher* kf_flusher_start(kf_datasync_fn datasync, kf_sync_directory_fn sync_directory, int64_t bytes_trigger,
                                 int64_t linger_ns, int* error)
    int kf_flusher_stop(kf_flusher* flusher)
    void kf_flusher_free(kf_flusher* flusher)
    int kf_flusher_eventfd(kf_flusher* flusher)
    int kf_flusher_statistics(kf_flusher* flusher, kf_flush_statistics* out)
    kf_flush_handle* kf_flush_register(kf_flusher* flusher, int64_t durable, int* error)
    void kf_flush_close(kf_flush_handle* handle)
    void kf_flush_free(kf_flush_handle* handle)
    int kf_flush_submit(kf_flush_handle* handle, int fd, int64_t end_offset, int64_t size)
    int kf_flush_submit_directory(kf_flush_handle* handle, const char* path)
    int kf_flush_request(kf_flush_handle* handle, int64_t end_offset)
    int kf_flush_gather_until_requested(kf_flush_handle* handle)
    int kf_flush_send(kf_flush_handle* handle, int64_t end_offset, int fd, const char* data, int size)
    int kf_flush_take_back(kf_flush_handle* handle)
    int kf_flush_wait(kf_flush_handle* handle, int64_t end_offset, int64_t timeout_ns)
    int kf_flush_reset(kf_flush_handle* handle, int64_t end_offset)
    int kf_flush_forget(kf_flush_handle* handle, int fd)
    int kf_flush_eventfd(kf_flush_handle* handle)
    int kf_flush_notify_from(kf_flush_handle* handle, int64_t end_offset)
    int64_t kf_flush_submitted(kf_flush_handle* handle)

# A blocked waiter checks for signals this often, so that Ctrl-C works. It does not poll for the flush.
cdef int64_t SIGNAL_CHECK_NS = 100_000_000
cdef double TIMEOUT_SECONDS_MAX = 1e9
cdef int64_t LINGER_US_MAX = 60_000_000

cdef int64_t live_flushers = 0
cdef int64_t live_handles = 0


cdef int64_t timeout_to_ns(object timeout) except -2:
    if timeout is None:
        return -1
    if not isfinite(<double>timeout) or timeout < 0 or timeout > TIMEOUT_SECONDS_MAX:
        raise InvalidArgumentError(f"timeout is {timeout}; 0 to {TIMEOUT_SECONDS_MAX:.0f} seconds are allowed")
    return <int64_t>(<double>timeout * 1e9)


def counters() -> dict[str, int]:
    """Count flushers (one thread each until closed) and handles alive in this process."""
    return {"flushers": live_flushers, "flush_handles": live_handles}


@cython.final
cdef class Flusher:
    """The thread. Any thread may call it. `close` flushes what is pending and ends the thread; dropping the last
    reference (each handle holds one) does the same.

    `bytes_trigger` (>= 1) counts per log; it and `linger_us` (0 to 60 s) decide when a log's gathering ends. With
    `linger_us` None only bytes end it, or a caller that requests a flush or waits. A wait then returns when the thread
    rests again, so that all effects and their order follow from the calls alone.
    """

    def __cinit__(self, *, int64_t bytes_trigger=1 << 20, linger_us: int | None = 0):
        global live_flushers
        cdef int error = 0
        if bytes_trigger < 1:
            raise InvalidArgumentError(f"bytes_trigger is {bytes_trigger}; at least 1 is needed")
        if linger_us is not None and not 0 <= linger_us <= LINGER_US_MAX:
            raise InvalidArgumentError(f"linger_us is {linger_us}; None and 0 to {LINGER_US_MAX} are allowed")
        self.bytes_trigger = bytes_trigger
        self.linger_us = linger_us
        self.flusher = kf_flusher_start(file_datasync, file_sync_dir, bytes_trigger,
                                        -1 if linger_us is None else <int64_t>linger_us * 1000, &error)
        if self.flusher == NULL:
            raise OSError(error, f"starting the flusher thread: {os.strerror(error)}")
        live_flushers += 1

    def __dealloc__(self):
        global live_flushers
        if self.flusher == NULL:
            return
        live_flushers -= 1
        with nogil:
            kf_flusher_free(self.flusher)

    cpdef FlushHandle register(self, object directory, int64_t durable=0):  # type: (FilePath, int) -> FlushHandle
        """Create a handle for one log. `directory` names it in errors; below `durable` everything is durable
        already."""
        return FlushHandle(self, directory, durable)

    def close(self) -> None:
        """Flush what was submitted and end the thread. Idempotent."""
        cdef int result
        with nogil:
            result = kf_flusher_stop(self.flusher)
        if result < 0:
            raise_foreign()

    @property
    def eventfd(self) -> int:
        """A descriptor that becomes readable (read it to clear) when any of its logs' `durable` moves or a flush fails.
        It starts readable if that has happened before. The flusher owns and closes it."""
        cdef int result = kf_flusher_eventfd(self.flusher)
        if result < 0:
            raise_unregistered(-result)
        return result

    def statistics(self) -> dict[str, int]:
        """Totals: submissions, flushes (rounds of one log), syncs (system calls), bytes flushed, busy_ns in calls."""
        cdef kf_flush_statistics totals
        if kf_flusher_statistics(self.flusher, &totals) < 0:
            raise_foreign()
        return totals

    def __enter__(self) -> Flusher:
        return self

    def __exit__(self, *exception) -> None:
        self.close()


cdef int raise_foreign() except -1:
    raise OperationError("the flusher belongs to another process: a fork does not have its thread")


cdef int raise_unregistered(int error) except -1:
    if error == ECHILD:
        raise_foreign()
    raise OSError(error, os.strerror(error))


# No cycle can go through a handle (a Flusher refers to nothing), and the handle must be released before its flusher.
@cython.final
@cython.no_gc
cdef class FlushHandle:
    """One log's marks and requests. `flusher.pxd` has the calls for compiled code."""

    def __cinit__(self, Flusher flusher not None, directory: FilePath, int64_t durable=0):
        global live_handles
        cdef int error = 0
        self.directory = os.fspath(directory)
        self.flusher = flusher
        self.handle = kf_flush_register(flusher.flusher, durable, &error)
        if self.handle == NULL:
            raise_unregistered(error)
        live_handles += 1

    def __dealloc__(self):
        global live_handles
        if self.handle == NULL:
            return
        live_handles -= 1
        with nogil:
            kf_flush_free(self.handle)

    cdef int put(self, int fd, int64_t end_offset, int64_t size) noexcept nogil:
        return kf_flush_submit(self.handle, fd, end_offset, size)

    cdef int put_directory(self, const char* path) noexcept nogil:
        return kf_flush_submit_directory(self.handle, path)

    cdef int64_t durable_end(self) noexcept nogil:
        return kf_flush_durable(self.handle)

    cdef int failure(self) noexcept nogil:
        return kf_flush_error(self.handle)

    cdef int request_flush(self, int64_t end_offset) noexcept nogil:
        return kf_flush_request(self.handle, end_offset)

    cdef int wait_for(self, int64_t end_offset, int64_t timeout_ns) noexcept nogil:
        return kf_flush_wait(self.handle, end_offset, timeout_ns)

    cdef int reset_to(self, int64_t end_offset) noexcept nogil:
        return kf_flush_reset(self.handle, end_offset)

    cdef int forget_file(self, int fd) noexcept nogil:
        return kf_flush_forget(self.handle, fd)

    cdef int raise_result(self, int result) except -1:
        if result >= 0:
            return result
        if kf_flush_error(self.handle) == -result:
            failed_fd = self.handle.failed_fd
            raise StorageError(os.fsdecode(self.directory), -result,
                               "flushing the directory" if failed_fd < 0 else f"flushing descriptor {failed_fd}")
        if result == -ECHILD:
            raise_foreign()
        if result == -ESHUTDOWN:
            raise LogClosedError(f"{os.fsdecode(self.directory)}: the flusher was closed")
        if result == -ECANCELED:
            raise OperationError(f"{os.fsdecode(self.directory)}: what was waited for was truncated away")
        raise OSError(-result, os.strerror(-result))

    def submit(self, int fd, int64_t end_offset, int64_t size=0) -> None:
        """Request durability of all bytes below `end_offset`, the last `size` of which went to `fd`.

        Owner's thread. The descriptor stays open until `durable` reaches `end_offset`, or `forget` or `close` returned.
        """
        self.raise_result(self.put(fd, end_offset, size))

    def submit_directory(self, path: FilePath) -> None:
        """Request durability of the directory's entries, before anything that is submitted later. Owner's thread."""
        cdef bytes name = os.fsencode(path)
        self.raise_result(self.put_directory(name))

    def gather_until_requested(self) -> None:
        """Let submissions gather until a caller requests a flush or waits, or there are `bytes_trigger` bytes. For
        an owner that sends one request for all that it submits in a loop iteration. Owner's thread."""
        self.raise_result(kf_flush_gather_until_requested(self.handle))

    def request(self, int64_t end_offset) -> None:
        """End gathering for the bytes below `end_offset`. Does not block."""
        self.raise_result(self.request_flush(end_offset))

    def send(self, int64_t end_offset, int fd, bytes message not None) -> bool:
        """Have the thread send a short message (at most 512 bytes) to a socket the moment `durable` reaches
        `end_offset`. Return False when it has already; nothing is sent then. A later message replaces an earlier one; a
        failure, a `reset` below and `close` drop it. The descriptor stays open until `take_back`."""
        return self.raise_result(kf_flush_send(self.handle, end_offset, fd, message, <int>len(message))) == 1

    def take_back(self) -> bool:
        """Withdraw the message. Return whether it has been sent; if not, it will not be."""
        return self.raise_result(kf_flush_take_back(self.handle)) == 1

    def notify_from(self, int64_t end_offset) -> bool:
        """Limit events, this handle's and the flusher's, to moves of `durable` from `end_offset` on and to failures.
        Return False when `durable` has reached it already; no event will report that. At first all moves count."""
        return self.raise_result(kf_flush_notify_from(self.handle, end_offset)) == 1

    def wait(self, int64_t end_offset, timeout: float | None = None) -> bool:
        """Request a flush, then block until `durable` >= `end_offset`; False when `timeout` seconds passed first.

        Raises StorageError when a flush failed, LogClosedError when nothing more will be flushed, OperationError when
        the bytes were truncated away meanwhile.
        """
        cdef int64_t left = timeout_to_ns(timeout)
        cdef int64_t slice_ns
        cdef int result
        while True:
            slice_ns = SIGNAL_CHECK_NS if left < 0 or left > SIGNAL_CHECK_NS else left
            with nogil:
                result = self.wait_for(end_offset, slice_ns)
            if result != -ETIMEDOUT:
                self.raise_result(result)
                return True
            PyErr_CheckSignals()
            if left >= 0:
                left -= slice_ns
                if left <= 0:
                    return False

    def reset(self, int64_t end_offset) -> None:
        """Lower `durable` and all pending ends to `end_offset` at most, after a truncation. Owner's thread."""
        self.raise_result(self.reset_to(end_offset))

    def forget(self, int fd) -> None:
        """Drop pending flushes of `fd`, which may be closed afterwards; blocks while one runs. Owner's thread."""
        cdef int result
        with nogil:
            result = self.forget_file(fd)
        self.raise_result(result)

    def close(self) -> None:
        """Drop pending flushes, wait for a running flush of this log. Owner's thread. Idempotent."""
        with nogil:
            kf_flush_close(self.handle)

    @property
    def durable(self) -> int:
        """Offset below which everything is durable."""
        return self.durable_end()

    @property
    def submitted(self) -> int:
        """The largest end offset submitted."""
        cdef int64_t end = kf_flush_submitted(self.handle)
        if end == -ECHILD:
            raise_foreign()
        return end

    @property
    def error(self) -> int:
        """errno of the first failure, 0 when there was none."""
        return self.failure()

    @property
    def failed_fd(self) -> int:
        """The descriptor whose flush failed; -1: a directory, or no failure."""
        return self.handle.failed_fd

    @property
    def eventfd(self) -> int:
        """A descriptor that becomes readable (read it to clear) when `durable` moves or a flush fails. It starts
        readable if that has happened before. The handle owns and closes it."""
        cdef int result = kf_flush_eventfd(self.handle)
        if result < 0:
            self.raise_result(result)
        return result
