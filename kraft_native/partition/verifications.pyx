"""Transactions that the coordinator confirms before their first batch is appended (KIP-890, KAFKA-14053).

A transactional batch whose producer has no open transaction in the log begins one. Only the coordinator knows
whether it may: it ends the transactions that it knows of, and no others. The leader therefore has it verified.

Meanwhile a marker may end the transaction. The batch must not be appended after it, even if the coordinator confirmed
it before: nothing would end what it begins. So a verification is an object that a marker removes. The append compares
it with the pending one by identity; a later verification of the same producer is another object.

Of the batches that wait for one verification, or that were refused for a reason that is retried, the one with the
lowest sequence has to be appended first. Otherwise its retry would be out of order, and never succeed.

What is pending is removed by an append or a marker of its producer, and by a change of the leader. What is left behind
by a client that never returns is removed when it is as old as `producer.id.expiration.ms`, or when there are too many.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

cimport cython

from kraft_native.base.bytes_be cimport load_i64
from kraft_native.base.fault cimport (
    ERROR_INVALID_PRODUCER_EPOCH, ERROR_INVALID_TXN_STATE, ERROR_NONE, ERROR_OUT_OF_ORDER_SEQUENCE_NUMBER,
)
from kraft_native.base.limits cimport BATCH_PRODUCER_ID
from kraft_native.batch.batch cimport batch_bytes_at
from kraft_native.segment.producer_entry cimport ProducerEntry

cdef enum:
    PENDING_MAX = 10_000


@cython.final
cdef class Verification:
    def __init__(self):
        raise TypeError("a partition creates its verifications")


@cython.final
cdef class Verifications:
    def __cinit__(self):
        self.pending = {}

    def __len__(self) -> int:
        return len(self.pending)

    cdef Verification begin(self, ProducerStates producers, int64_t producer_id, int16_t producer_epoch,
                            int32_t sequence, bint adds, int64_t now_ms):
        cdef Verification found = self.pending.get(producer_id)
        cdef ProducerEntry* known = producers.find(producer_id)
        if known != NULL and producer_epoch < known.producer_epoch:
            return None
        if found is None:
            self.make_room(now_ms - producers.expiration_ms)
            found = Verification.__new__(Verification)
            found.producer_id = producer_id
            found.producer_epoch = producer_epoch
            found.sequence_min = sequence
            found.begun_ms = now_ms
            self.pending[producer_id] = found
        elif producer_epoch > found.producer_epoch:
            found.producer_epoch = producer_epoch      # its sequences begin again
            found.sequence_min = sequence
        elif producer_epoch == found.producer_epoch:
            found.sequence_min = min(found.sequence_min, sequence)
        found.adds = adds
        return found

    cdef int make_room(self, int64_t begun_before_ms) except -1:
        """Remove the oldest ones."""
        cdef Verification oldest
        while self.pending:
            oldest = next(iter(self.pending.values()))
            if len(self.pending) < PENDING_MAX and oldest.begun_ms > begun_before_ms:
                break
            del self.pending[oldest.producer_id]
        return 0

    cdef int check(self, Verification verification, ProducerStates producers, int16_t producer_epoch,
                   int32_t sequence) except -1:
        cdef ProducerEntry* known = producers.find(verification.producer_id)
        if known != NULL and producer_epoch < known.producer_epoch:
            return ERROR_INVALID_PRODUCER_EPOCH
        if self.pending.get(verification.producer_id) is not verification:
            return ERROR_INVALID_TXN_STATE
        if sequence > verification.sequence_min:
            return ERROR_OUT_OF_ORDER_SEQUENCE_NUMBER
        # With transaction.version 2 each transaction has an epoch of its own, whose first sequence is 0.
        if verification.adds and sequence > 0 and (known == NULL or known.batch_count == 0):
            return ERROR_OUT_OF_ORDER_SEQUENCE_NUMBER
        return ERROR_NONE

    cdef int end(self, int64_t producer_id) except -1:
        if self.pending:
            self.pending.pop(producer_id, None)
        return 0

    cdef int end_all(self, const uint8_t* data, Py_ssize_t size) except -1:
        cdef Py_ssize_t at = 0
        while self.pending and at < size:
            self.pending.pop(load_i64(data + at + BATCH_PRODUCER_ID), None)
            at += batch_bytes_at(data + at)
        return 0
