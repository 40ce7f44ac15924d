"""Producer-id state of one log: idempotence, open transactions, snapshots (Kafka's ProducerStateManager)."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kraft_native.batch.batch cimport BatchHeader
from kraft_native.segment.producer_entry cimport AbortedTxn, KeptBatch, ProducerEntry, TxnQueue


cdef enum ProducerVerdict:
    PRODUCER_APPEND = 0
    PRODUCER_DUPLICATE = 1         # `duplicate` holds the batch kept for it: answer with its offsets, append nothing


cdef enum TxnEnd:
    TXN_NONE = 0                   # the batch ended no transaction
    TXN_ABORTED = 1
    TXN_COMMITTED = 2


cdef struct ProducerSlot:
    int64_t producer_id
    int32_t index                  # into entries, -1: free


cdef class ProducerStates:
    cdef readonly int64_t expiration_ms
    cdef readonly int64_t map_end_offset        # state covers all batches below
    cdef readonly int64_t snapshot_offset       # of the last one written or loaded; the log start when none
    cdef ProducerEntry* entries                 # dense, in no order
    cdef int32_t entry_count
    cdef int32_t entry_capacity
    cdef ProducerSlot* slots                    # open addressing, linear probing, at most half full
    cdef uint32_t slot_mask
    cdef uint64_t seed
    cdef TxnQueue open_txns                     # by first offset
    cdef TxnQueue ended_txns                    # above the high watermark; first and last offsets both increase

    # Before an append by the leader: checks epoch and sequence of an idempotent or transactional batch. Raises
    # OutOfOrderSequenceError, InvalidProducerEpochError, InvalidTxnStateError. Changes nothing. Without `client_origin`
    # (a coordinator's write) sequences are not checked.
    cdef int verify(self, const BatchHeader* h, bint client_origin, KeptBatch* duplicate) except -1
    # The same for a transaction marker of that transaction.version; also raises TransactionCoordinatorFencedError. A
    # marker that would change nothing is a duplicate of the producer's last one. After a restart that one is only known
    # to lie below the end of the log.
    cdef int verify_marker(self, const BatchHeader* h, int32_t coordinator_epoch, int transaction_version,
                           KeptBatch* duplicate) except -1
    # After the batch was written (leader, follower, replay alike): h has its final offsets. Where h is a control batch,
    # `control_type` and `coordinator_epoch` are those of its record (-1, -1 when compaction left it empty). Never
    # refuses. Fills `completed` and returns TXN_ABORTED or TXN_COMMITTED when the marker ended a transaction.
    # MemoryError is the only error, and nothing has changed then.
    cdef int update(self, const BatchHeader* h, int32_t control_type, int32_t coordinator_epoch,
                    AbortedTxn* completed) except -1 nogil
    # Oldest first offset of a transaction that is open, or ended above the high watermark; -1 when none.
    cdef int64_t first_unstable(self, int64_t high_watermark) noexcept nogil
    cdef int advance(self, int64_t map_end_offset) noexcept nogil       # the map covers up to here
    cdef ProducerEntry* find(self, int64_t producer_id) noexcept nogil  # NULL when unknown; valid until the next update
    cdef ProducerStates copy_of_batches(self)   # for `find` only: it has no transactions
    # Writes `<offset>.snapshot` unless one was taken there already; True when a file was written.
    cpdef bint write_snapshot(self, object directory, int64_t offset, bint durable=*) except -1
    # Replaces the state by that of a snapshot file; CorruptFileError leaves it empty.
    cpdef int load(self, object path, int64_t offset, int64_t now_ms) except -1
    # Brings the state to one that `map_end_offset` describes, at or below log_end; see `producers.pyx`.
    cpdef list truncate_and_reload(self, object directory, int64_t log_start, int64_t log_end, int64_t now_ms,
                                   bint apart=*)
    cpdef int truncate_fully(self, object directory, int64_t offset) except -1
    cpdef int log_start_incremented(self, object directory, int64_t log_start) except -1
    cdef int begin_at(self, int64_t log_start, list offsets) except -1
    cpdef int remove_expired(self, int64_t now_ms) except -1

    cdef ProducerEntry* obtain(self, int64_t producer_id) noexcept nogil
    cdef int apply_data(self, const BatchHeader* h) noexcept nogil
    cdef int apply_marker(self, const BatchHeader* h, int32_t control_type, int32_t coordinator_epoch,
                          AbortedTxn* completed) noexcept nogil
    cdef uint32_t slot_of(self, int64_t producer_id) noexcept nogil
    cdef int resize_slots(self, uint32_t slot_count) noexcept nogil
    cdef int remove_at(self, int32_t index) noexcept nogil
    cdef int clear(self) noexcept nogil
    cdef int decode(self, object path, bytes data, int64_t now_ms) except -1
