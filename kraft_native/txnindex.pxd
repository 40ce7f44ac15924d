"""Transaction index: the aborted transactions whose marker lies in one segment (Kafka's `.txnindex`)."""

from libc.stdint cimport int16_t, int64_t

from kraft_native.producer_entry cimport AbortedTxn


cdef class TransactionIndex:
    cdef readonly object path
    cdef readonly int64_t base_offset
    cdef list entries              # of (producer_id, first_offset, last_offset, last_stable_offset), file order
    cdef bint loaded

    cdef int append(self, const AbortedTxn* aborted) except -1      # written through to the file at once
    # Adds to `found` the aborted transactions that overlap [fetch_offset, upper_bound); True when the search may end
    # here (an entry's last_stable_offset >= upper_bound), as Kafka's collectAbortedTxns.
    cdef bint collect(self, int64_t fetch_offset, int64_t upper_bound, list found) except -1
    cdef int truncate_to(self, int64_t offset) except -1
    cdef int flush(self) except -1
