"""A batch that is checked away from its log's thread."""

from libc.stdint cimport int64_t, uint8_t

from kraft_native.batch.validate cimport PreparedBatch
from kraft_native.file.buffer cimport Scratch
from kraft_native.segment.config cimport LogConfig


cdef class BatchCheck:
    """One batch of a client, on its way through a helper thread. Its creator keeps `data` in place."""
    cdef const uint8_t* data
    cdef Py_ssize_t size
    cdef object owner              # of the bytes
    cdef LogConfig config          # the settings that it was checked by
    cdef int64_t now_ms            # the time of its append
    cdef Scratch rewrite
    cdef PreparedBatch prepared
    cdef object refusal            # what `validate_batch` raised
    cdef readonly bint done
    cdef readonly unsigned long thread_id      # the thread that ran it; 0 before

    # Passes the outcome on, or raises the fault found.
    cdef int give(self, PreparedBatch* out) except -1


cdef BatchCheck new_batch_check(object owner, const uint8_t* data, Py_ssize_t size, LogConfig config, int64_t now_ms)
