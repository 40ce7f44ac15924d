"""Control records: transaction markers, leader changes and other records that Raft writes (`wire.md` 2.4)."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kraft_native.batch.batch cimport BatchHeader
from kraft_native.batch.records cimport RecordView
from kraft_native.file.buffer cimport Scratch


cdef enum:
    CONTROL_KEY_BYTES = 4          # int16 version, int16 type
    MARKER_VALUE_BYTES = 6         # int16 version, int32 coordinator epoch
    MARKER_BATCH_BYTES = 78        # of a marker as a batch of its own

# Reads one control record: its type (any int16; see limits.CONTROL_*) and, for abort and commit, the coordinator's
# epoch (else -1). 0, or -1 when it is malformed: a short key or value, a negative version.
cdef int control_record(const RecordView* r, int32_t* type, int32_t* coordinator_epoch) noexcept nogil

# The same for the first record of an uncompressed control batch that was checked already. 1: filled; 0: the batch has
# no records (compaction); -1: malformed, or compressed, which Kafka never writes.
cdef int control_parse(const uint8_t* batch, const BatchHeader* h, int32_t* type,
                       int32_t* coordinator_epoch) noexcept nogil


# Replaces the content of `out` by the batch that ends a transaction: one commit or abort marker.
cdef int encode_marker(Scratch out, bint commit, int64_t producer_id, int16_t producer_epoch, int32_t coordinator_epoch,
                       int64_t timestamp_ms, int64_t base_offset, int32_t leader_epoch) except -1


cdef class ControlRecord:
    """One control record as Python objects; see `control.pyx`."""
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp_ms
    cdef readonly int64_t producer_id
    cdef readonly int32_t producer_epoch
    cdef readonly int32_t leader_epoch
    cdef readonly int32_t type
    cdef readonly int32_t key_version
    cdef readonly bytes value  # type: bytes | None
    cdef int32_t coordinator
