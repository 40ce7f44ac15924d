"""Checks and changes of a client's batch by the leader before it is stored (Kafka's LogValidator; `wire.md` 2.2)."""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from kraft_native.base.limits cimport BATCH_HEADER_BYTES
from kraft_native.batch.batch cimport BatchHeader
from kraft_native.batch.codecs cimport DecompressLimits
from kraft_native.file.buffer cimport Scratch


cdef enum AppendOrigin:
    ORIGIN_CLIENT = 0              # all checks
    ORIGIN_COORDINATOR = 1         # control batches, any base offset and any base sequence allowed
    ORIGIN_RAFT_LEADER = 2         # structure and CRC only: the bytes are kept as they are, offsets and epoch too


cdef enum:
    # Limits of a batch's cost on the thread that serves all connections, in bytes of records: decompressed, and
    # compressed again. At the slowest codec (gzip, about 300 MB/s and 30 MB/s) that is a millisecond or two.
    LOOP_RECORDS_BYTES_MAX = 256 * 1024
    LOOP_RECODED_BYTES_MAX = 64 * 1024
    VALIDATE_COSTLY = 1
    # At most this many records of a batch are named when they break a rule: an answer must not be larger than its
    # request.
    NAMED_RECORDS_MAX = 100


cdef struct ValidateOptions:
    int64_t now_ms                 # 0 or more
    int64_t timestamp_before_max_ms
    int64_t timestamp_after_max_ms
    DecompressLimits limits
    int32_t batch_bytes_max        # max.message.bytes
    int32_t target_codec           # -1: keep the producer's codec
    int32_t target_level
    int8_t timestamp_type          # TIMESTAMP_CREATE_TIME or TIMESTAMP_LOG_APPEND_TIME
    int8_t origin                  # AppendOrigin
    bint key_required              # compacted topic
    bint bounded                   # more work than LOOP_RECORDS_BYTES_MAX and LOOP_RECODED_BYTES_MAX allow is refused


# A batch ready to be written as two pieces: `header` (patched copy) and `body` (the client's own bytes, or re-encoded
# ones in the scratch given). Valid until the input or the scratch changes.
cdef struct PreparedBatch:
    BatchHeader h                  # as in `header`; base_offset and leader_epoch are assigned by the log
    const uint8_t* body
    Py_ssize_t body_bytes
    int64_t max_timestamp_delta    # offset delta of the first record that has h.max_timestamp; 0 when none has it
    uint8_t header[BATCH_HEADER_BYTES]


# Validates one whole batch data[0:size] for a leader append and prepares it. Raises (nothing changed): see the table in
# `validate.pyx`. `records` and `rewrite` are scratch: decompressed records, and the re-encoded body. VALIDATE_COSTLY
# when options are `bounded` and the work would exceed them: nothing is known about the batch then. Any thread.
cdef int validate_batch(const uint8_t* data, Py_ssize_t size, const ValidateOptions* options, Scratch records,
                        Scratch rewrite, PreparedBatch* out) except -1


cdef class ValidatedBatch:
    """Result of `validate`; see `validate.pyx`."""
    cdef readonly bytes data
    cdef readonly int64_t max_timestamp_delta
    cdef readonly bint rewritten
