"""A batch that is checked away from its log's thread, because decompressing it would hold up all other connections.

Checking needs only the settings of the log, so any thread can do it. Offsets, epochs and sequences are the append's,
which the owner does afterwards with the outcome. A change of settings meanwhile invalidates the outcome.
"""

import threading

cimport cython

from kraft_native.batch.validate cimport ORIGIN_CLIENT, ValidateOptions, validate_batch


@cython.final
cdef class BatchCheck:
    """One batch of a client. `run` in any thread, once; then the owner's thread uses it."""

    def __init__(self):
        raise TypeError("the appends that need one make it")

    def run(self) -> None:
        """Decompress, check, and encode again if need be. Faults are raised when the batch is appended."""
        cdef ValidateOptions options = self.config.validation
        options.now_ms = self.now_ms
        options.origin = ORIGIN_CLIENT
        self.thread_id = threading.get_ident()
        try:
            validate_batch(self.data, self.size, &options, Scratch(), self.rewrite, &self.prepared)
        except BaseException as error:
            self.refusal = error
        self.done = True

    cdef int give(self, PreparedBatch* out) except -1:
        assert self.done, "a batch is used before it was checked"
        if self.refusal is not None:
            raise self.refusal
        out[0] = self.prepared
        return 0


cdef BatchCheck new_batch_check(object owner, const uint8_t* data, Py_ssize_t size, LogConfig config, int64_t now_ms):
    cdef BatchCheck check = BatchCheck.__new__(BatchCheck)
    check.owner = owner
    check.data = data
    check.size = size
    check.config = config
    check.now_ms = now_ms
    check.rewrite = Scratch()
    return check
