"""The batches of one segment file in order, for compaction.

Read by pread into a buffer of its own rather than through the segment's mapping: the memory of a compaction then has
a bound whatever the size of the log, a page that cannot be read is an error and not a signal, and the checksum, the
record walk and the copy find the bytes in the processor's cache. Mapping a window instead was measured and is not
faster.

Every batch is checked (structure, CRC, rising offsets) each time it is read: what compaction misreads it would write
back as truth, and the original is removed.
"""

import errno
import os

cimport cython
from libc.string cimport memmove
from posix.fcntl cimport O_RDONLY

from kraft_native.batch cimport LOOK_CORRUPT, LOOK_OK, BatchLook, batch_bytes, batch_last_offset, batch_look
from kraft_native.errors cimport ERROR_CORRUPT_MESSAGE, fault_set, fault_text
from kraft_native.fileio cimport check, file_close, file_open, file_read
from kraft_native.limits cimport BATCH_HEADER_BYTES

from kraft_native.errors import CorruptLogError, StorageError

cdef enum:
    # Small enough for the second-level cache, large enough that system calls do not count.
    BUFFER_BYTES = 256 * 1024

cdef int errno_no_data = errno.ENODATA


@cython.final
cdef class BatchSource:
    def __cinit__(self):
        self.fd = -1
        self.buffer = Scratch()
        self.buffer.reserve(BUFFER_BYTES)

    def __dealloc__(self):
        self.close()

    cdef int open(self, bytes path, int64_t size, int64_t position, int64_t base_offset) except -1:
        self.close()
        self.path = path
        self.size = size
        self.start = position
        self.filled = self.at = 0
        self.next_offset = base_offset
        self.fd = <int>check(file_open(path, O_RDONLY, 0), path)
        return 0

    cdef void close(self) noexcept:
        file_close(self.release())

    cdef int release(self) noexcept:
        cdef int fd = self.fd
        self.fd = -1
        return fd

    cdef SourceResult next(self) noexcept nogil:
        cdef BatchLook look
        if self.at == self.filled:
            return SOURCE_END if self.start + self.filled >= self.size else SOURCE_REFILL
        look = batch_look(self.buffer.data + self.at, self.filled - self.at, True, &self.h, &self.fault)
        if look == LOOK_OK:
            if self.h.base_offset < self.next_offset:
                fault_set(&self.fault, ERROR_CORRUPT_MESSAGE, "base offset %lld where at least %lld was due",
                          self.h.base_offset, self.next_offset)
                return SOURCE_FAULT
            self.batch = self.buffer.data + self.at
            self.next_offset = batch_last_offset(&self.h) + 1
            self.at += batch_bytes(&self.h)
            return SOURCE_BATCH
        if look == LOOK_CORRUPT or self.start + self.filled >= self.size:
            return SOURCE_FAULT
        if self.filled - self.at >= BATCH_HEADER_BYTES:
            if batch_bytes(&self.h) > self.size - self.start - self.at:
                return SOURCE_FAULT
            if batch_bytes(&self.h) > self.buffer.capacity:
                return SOURCE_GROW
        return SOURCE_REFILL

    cdef SourceResult refill(self) noexcept nogil:
        cdef int64_t wanted, got
        memmove(self.buffer.data, self.buffer.data + self.at, <size_t>(self.filled - self.at))
        self.start += self.at
        self.filled -= self.at
        self.at = 0
        wanted = min(<int64_t>(self.buffer.capacity - self.filled), self.size - self.start - self.filled)
        got = file_read(self.fd, self.buffer.data + self.filled, <size_t>wanted, self.start + self.filled)
        if got != wanted:
            self.error = <int>-got if got < 0 else errno_no_data
            return SOURCE_ERROR
        self.filled += <Py_ssize_t>got
        return SOURCE_BATCH

    cdef int grow(self) except -1:
        """Room for the batch in `h`."""
        self.buffer.size = self.filled
        self.buffer.reserve(batch_bytes(&self.h))
        return 0

    cdef int raise_result(self, SourceResult result) except -1:
        if result == SOURCE_ERROR:
            raise StorageError(os.fsdecode(self.path), self.error)
        raise CorruptLogError(os.fsdecode(self.path), self.start + self.at, self.next_offset, -1,
                              fault_text(&self.fault))

    cdef int malformed(self, object what) except -1:
        raise CorruptLogError(os.fsdecode(self.path), self.start + self.at - batch_bytes(&self.h),
                              self.h.base_offset, self.next_offset, str(what))
