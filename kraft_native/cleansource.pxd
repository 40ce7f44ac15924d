"""The batches of one segment file in order, for compaction: by pread, every one checked, in bounded memory."""

from libc.stdint cimport int64_t, uint8_t

from kraft_native.batch cimport BatchHeader
from kraft_native.buffer cimport Scratch
from kraft_native.errors cimport Fault


cdef enum SourceResult:
    SOURCE_BATCH = 0               # `batch` and `h` are the next one
    SOURCE_END = 1
    SOURCE_REFILL = 2              # nothing more in the buffer: `refill`, which moves what `batch` pointed to
    SOURCE_GROW = 3                # a batch is larger than the buffer: `grow`, with the GIL
    SOURCE_FAULT = 4               # `fault` says what is wrong
    SOURCE_ERROR = 5               # `error` is the errno of a read


cdef class BatchSource:
    cdef bytes path
    cdef Scratch buffer
    cdef int fd
    cdef int error
    cdef int64_t size              # of the batches in the file
    cdef int64_t start             # position in the file of the buffer's first byte
    cdef Py_ssize_t filled
    cdef Py_ssize_t at             # in the buffer: behind the current batch
    cdef int64_t next_offset       # the smallest base offset that may come
    cdef const uint8_t* batch
    cdef BatchHeader h
    cdef Fault fault

    # Opens the file at a batch boundary. `base_offset`: the smallest base offset that may be there.
    cdef int open(self, bytes path, int64_t size, int64_t position, int64_t base_offset) except -1
    cdef void close(self) noexcept
    # Lets go of the file without closing it: its descriptor.
    cdef int release(self) noexcept
    cdef SourceResult next(self) noexcept nogil
    cdef SourceResult refill(self) noexcept nogil
    cdef int grow(self) except -1
    # Raises for SOURCE_FAULT and SOURCE_ERROR; `malformed` for a batch whose records cannot be understood.
    cdef int raise_result(self, SourceResult result) except -1
    cdef int malformed(self, object what) except -1
