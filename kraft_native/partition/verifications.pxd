"""Transactions that the coordinator confirms before their first batch is appended (KIP-890)."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kraft_native.segment.producers cimport ProducerStates


cdef class Verification:
    """One producer's transaction in one partition, from the first request for it until its first batch, or until a
    marker. The object itself is the guard: an append that was verified by another one is refused."""
    cdef readonly int64_t producer_id
    cdef readonly int16_t producer_epoch
    cdef readonly int32_t sequence_min     # lowest sequence of the batches that wait, or failed
    cdef readonly bint adds                # the coordinator adds the partition to the transaction
    cdef int64_t begun_ms


cdef class Verifications:
    """The verifications of one partition. Loop's thread."""
    cdef dict pending              # producer id -> Verification, oldest first

    cdef int make_room(self, int64_t begun_before_ms) except -1
    # Begins one, or joins the one that is pending. None for a producer epoch older than one in the log.
    cdef Verification begin(self, ProducerStates producers, int64_t producer_id, int16_t producer_epoch,
                            int32_t sequence, bint adds, int64_t now_ms)
    # Kafka's error for the first batch of a transaction that `verification` verified; 0 when it may be appended.
    cdef int check(self, Verification verification, ProducerStates producers, int16_t producer_epoch,
                   int32_t sequence) except -1
    # A batch or a marker of the producer was appended: what was pending for it ends.
    cdef int end(self, int64_t producer_id) except -1
    # The same for the producers of these whole batches.
    cdef int end_all(self, const uint8_t* data, Py_ssize_t size) except -1
