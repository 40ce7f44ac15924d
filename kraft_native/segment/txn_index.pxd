"""Transaction index: the aborted transactions whose marker lies in one segment (Kafka's `.txnindex`)."""

from libc.stdint cimport int64_t

from kraft_native.segment.producer_entry cimport AbortedTxn


cdef class TransactionIndex:
    cdef readonly bytes path
    cdef readonly int64_t base_offset
    cdef list entries              # of (producer_id, first_offset, last_offset, last_stable_offset), file order
    cdef bint loaded
    cdef bint created              # the file's directory entry may not be durable

    cdef bint unsynced             # written since the last flush

    cdef Py_ssize_t tail_bytes     # of an incomplete entry at the end of the file as it was loaded
    cdef object failure            # the first failed write or flush; no other is tried after it

    cdef int append(self, const AbortedTxn* aborted) except -1      # written through to the file at once
    # Adds to `found` the aborted transactions that overlap [fetch_offset, upper_bound); True when the search may end
    # here (an entry's last_stable_offset >= upper_bound), as Kafka's collectAbortedTxns.
    cpdef bint collect(self, int64_t fetch_offset, int64_t upper_bound, list found) except -1
    cpdef int truncate_to(self, int64_t offset) except -1           # drops entries with last_offset >= the target
    cpdef int flush(self) except -1                                 # makes the entries durable, and the file's name
    cpdef int reset(self) except -1                                 # drops all entries and the file's content

    # Answers with these entries; the file is left as it is and never written again, because of `failure`.
    cdef int answer_from(self, list entries, object failure) except -1
    cdef int load(self) except -1
    cdef int parse(self, bytes data) except -1
    cdef int replace(self, list entries) except -1
    cdef int require_usable(self) except -1
    cdef int written(self, int64_t result) except -1
