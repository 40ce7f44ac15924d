"""Producer-id state of one log: idempotence, open transactions, snapshots (Kafka's ProducerStateManager)."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t

from kraft_native.batch cimport BatchHeader
from kraft_native.txnindex cimport AbortedTxn


cdef struct KeptBatch:
    int64_t last_offset
    int64_t timestamp
    int32_t first_sequence
    int32_t last_sequence
    int32_t offset_delta


cdef struct ProducerEntry:
    int64_t producer_id
    int64_t txn_first_offset       # -1: no open transaction
    int64_t last_timestamp
    int32_t coordinator_epoch
    int16_t producer_epoch
    int8_t batch_count             # 0..5, oldest first
    KeptBatch batches[5]


cdef enum ProducerVerdict:
    PRODUCER_APPEND = 0
    PRODUCER_DUPLICATE = 1         # `duplicate` holds the batch kept for it: answer with its offsets, append nothing


cdef class ProducerStates:
    cdef readonly int64_t map_end_offset        # state covers all batches below
    cdef readonly int64_t snapshot_offset       # of the last snapshot written or loaded, -1: none

    # Before an append by the leader: checks epoch and sequence of an idempotent or transactional batch. Raises
    # OutOfOrderSequenceError, InvalidProducerEpochError, InvalidTxnStateError. Changes nothing.
    cdef ProducerVerdict verify(self, const BatchHeader* h, bint client_origin, KeptBatch* duplicate) except *
    # After the batch was written (leader, follower, replay alike): h has its final offsets. `control` points at the
    # control record's key and value where h is a control batch (marker), else NULL. Fills `completed` and returns 1 when the
    # marker ended a transaction as aborted, 2 as committed, else 0.
    cdef int update(self, const BatchHeader* h, int32_t control_type, int32_t coordinator_epoch, AbortedTxn* completed) except -1
    # Oldest first offset of a transaction that is open, or ended above the high watermark; -1 when none.
    cdef int64_t first_unstable(self, int64_t high_watermark) noexcept nogil
    cdef int advance(self, int64_t map_end_offset) noexcept nogil       # the map covers up to here
    cpdef bint write_snapshot(self, object directory, int64_t offset, bint durable=*) except -1
