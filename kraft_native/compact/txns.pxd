"""Aborted transactions along a walk of a log: their batches, and the markers that have nothing left to mark."""

from libc.stdint cimport int32_t

from kraft_native.batch.batch cimport BatchHeader


cdef class CleanedTransactions:
    cdef list waiting                  # heap of (first offset, producer id, entry): not reached yet
    cdef dict aborted                  # producer id -> [entry, whether a batch of it was seen]

    cdef set committed                 # producers with a batch of a transaction that was not aborted
    cdef list kept                     # entries whose marker has to stay, in order of their markers

    # Adds aborted transactions, as the transaction index has them, that overlap the next part of the walk. Repeats do
    # no harm.
    cdef int add(self, list entries) except -1
    # A data batch of a transaction: returns whether that was aborted.
    cdef bint take_data(self, const BatchHeader* h) except -1
    # A control batch: returns whether transactions allow its removal. `type` -1: it has no record.
    cdef bint take_control(self, const BatchHeader* h, int32_t type) except -1
    # A walk that continues from here, without changing this one.
    cdef CleanedTransactions copy(self)
    cdef int pass_to(self, const BatchHeader* h) except -1
