"""Which batches belong to aborted transactions, and which markers have nothing left to mark, along a walk of a log."""

from libc.stdint cimport int32_t

from kraft_native.batch cimport BatchHeader


cdef class CleanedTransactions:
    cdef list waiting                  # heap of (first offset, producer id, entry): not reached yet
    cdef dict aborted                  # producer id -> [entry, whether a batch of it was seen]
    cdef set committed                 # producers with a batch of a transaction that was not aborted
    cdef list kept                     # entries whose marker has to stay, in order of their markers

    # Aborted transactions, as the transaction index has them, that overlap what is walked next. Repeats do no harm.
    cdef int add(self, list entries) except -1
    # A data batch of a transaction: whether that was aborted.
    cdef bint take_data(self, const BatchHeader* h) except -1
    # A control batch: whether it may go, as far as transactions are concerned. `type` -1: it has no record.
    cdef bint take_control(self, const BatchHeader* h, int32_t type) except -1
    # A walk that goes on from here, without touching this one.
    cdef CleanedTransactions copy(self)
    cdef int pass_to(self, const BatchHeader* h) except -1
