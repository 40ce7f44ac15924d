"""Appending to a log: as leader, as follower, one record. All or nothing per call."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kraft_native.batch.batch cimport BatchHeader
from kraft_native.batch.validate cimport AppendOrigin, PreparedBatch
from kraft_native.file.buffer cimport Scratch
from kraft_native.file.file_io cimport iovec
from kraft_native.log.apply cimport ControlMark
from kraft_native.log.batch_check cimport BatchCheck
from kraft_native.log.core cimport LogCore


cdef struct PendingBatch:
    PreparedBatch prepared
    ControlMark mark
    const uint8_t* source          # the caller's whole batch
    int transaction_version        # of a marker


cdef class AppendInfo:
    cdef readonly int64_t first_offset
    cdef readonly int64_t last_offset
    cdef readonly int64_t log_append_time_ms    # -1 on CreateTime logs
    cdef readonly int64_t log_start_offset
    cdef readonly bint duplicate


cdef class Appender:
    """The append path of one log with its working space. Owner's thread."""
    cdef LogCore core
    cdef PendingBatch* pending
    cdef iovec* pieces             # two per pending batch
    cdef Py_ssize_t capacity
    cdef list rewrites             # Scratch each, for re-encoded batches of one call
    cdef Scratch record            # of append_one

    # Validates, assigns offsets from the log end (ORIGIN_RAFT_LEADER: requires the caller's), checks producers, writes.
    # `single`: the input is one batch, as a Produce request must have it; a second one is an error.
    cdef AppendInfo leader(self, const uint8_t* data, Py_ssize_t size, int32_t leader_epoch, AppendOrigin origin,
                           int64_t now_ms, bint single)
    # One batch of a client. `check`: its validation, done elsewhere; None: validate here. With `bounded`, None is
    # returned when that would cost too much (`batch/validate.pxd`); nothing has changed then.
    cdef AppendInfo produce(self, const uint8_t* data, Py_ssize_t size, int32_t leader_epoch, int64_t now_ms,
                            BatchCheck check, bint bounded)
    # Keeps offsets and epochs; checks structure, CRC and that offsets go up from the log end.
    cdef AppendInfo follower(self, const uint8_t* data, Py_ssize_t size)
    # The end of a producer's transaction, written by its coordinator in that epoch of it. For `transaction_version` see
    # `ProducerStates.verify_marker`.
    cdef AppendInfo marker(self, bint commit, int64_t producer_id, int16_t producer_epoch, int32_t coordinator_epoch,
                           int transaction_version, int32_t leader_epoch, int64_t now_ms)
    # One record as a batch of its own; key_bytes and value_bytes -1: null; timestamp -1: now. Returns its offset.
    cdef int64_t one(self, const uint8_t* key, Py_ssize_t key_bytes, const uint8_t* value, Py_ssize_t value_bytes,
                     const uint8_t* headers, Py_ssize_t headers_bytes, int32_t header_count, int64_t timestamp_ms,
                     int32_t leader_epoch) except -1

    cdef int reserve(self, Py_ssize_t count) except -1
    cdef int enter(self, int32_t leader_epoch) except -1
    cdef AppendInfo lead(self, Py_ssize_t count, int32_t leader_epoch, AppendOrigin origin, int64_t now_ms)
    cdef Py_ssize_t prepare(self, const uint8_t* data, Py_ssize_t size, AppendOrigin origin, int64_t now_ms,
                            bint single) except -1
    cdef int64_t assign(self, Py_ssize_t count, int32_t leader_epoch, AppendOrigin origin) except -1
    cdef AppendInfo verify_producers(self, Py_ssize_t count, AppendOrigin origin)
    cdef int verify_sequel(self, const BatchHeader* before, const BatchHeader* h) except -1
    cdef int commit(self, Py_ssize_t first, Py_ssize_t end, int64_t bytes_count, iovec* pieces, int piece_count,
                    int64_t now_ms) except -1
    cdef Py_ssize_t look_through(self, const uint8_t* data, Py_ssize_t size) except -1
    cdef AppendInfo answer(self, int64_t first_offset, int64_t last_offset, int64_t log_append_time_ms, bint duplicate)
