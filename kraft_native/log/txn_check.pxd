"""Comparison of a segment's transaction index with its markers; the index is corrected where it differs."""

from libc.stdint cimport int64_t

from kraft_native.segment.producers cimport ProducerStates
from kraft_native.segment.segment cimport Segment
from kraft_native.segment.txn_index cimport TransactionIndex


cdef class TxnChecker:
    cdef bytes directory
    cdef int64_t snapshots_end         # later snapshots are not trusted
    cdef ProducerStates producers      # as they were at its map_end_offset; None before the first check

    # Checks the index of segments[slot], once per segment. `log_end` ends the last segment.
    cdef int require(self, list segments, Py_ssize_t slot, int64_t log_end) except -1
    cdef Py_ssize_t load_producers(self, list segments, Py_ssize_t slot) except -1
    cdef int check_segment(self, Segment segment, int64_t end) except -1
    cdef int correct(self, TransactionIndex index, list entries) except -1
    cdef list replay(self, Segment segment)


# Whether a batch of [start_offset, end_offset) belongs to a transaction; segments[slot] is the first that may hold it.
cdef bint has_transactions(list segments, Py_ssize_t slot, int64_t start_offset, int64_t end_offset) except -1
