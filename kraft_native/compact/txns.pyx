"""Transactions along a walk of a log (Kafka's CleanedTransactionMetadata).

A walk goes from the log's first batch upwards. Aborted records may be dropped at once. A marker may be dropped once the
walk met no batch of its transaction. That also holds for batches that an earlier compaction emptied and kept for their
producer's sequence. An aborted transaction stays in the transaction index as long as its marker must stay.

Per batch of a transaction, not per record; plain batches do not come here.
"""

import heapq

cimport cython

from kraft_native.base.limits cimport CONTROL_ABORT, CONTROL_COMMIT
from kraft_native.batch.batch cimport batch_last_offset


@cython.final
cdef class CleanedTransactions:
    def __cinit__(self):
        self.waiting = []
        self.aborted = {}
        self.committed = set()
        self.kept = []

    cdef int add(self, list entries) except -1:
        for entry in entries:
            heapq.heappush(self.waiting, (entry[1], entry[0], entry))
        return 0

    cdef int pass_to(self, const BatchHeader* h) except -1:
        """Begin the aborted transactions whose first offset the walk has reached."""
        while self.waiting and self.waiting[0][0] <= batch_last_offset(h):
            entry = heapq.heappop(self.waiting)[2]
            # A transaction whose marker the walk has passed is over: the segment after it named it again.
            if entry[2] >= h.base_offset:
                self.aborted.setdefault(entry[0], [entry, False])
        return 0

    cdef bint take_data(self, const BatchHeader* h) except -1:
        self.pass_to(h)
        state = self.aborted.get(h.producer_id)
        if state is None:
            self.committed.add(h.producer_id)
            return False
        state[1] = True
        return True

    cdef bint take_control(self, const BatchHeader* h, int32_t type) except -1:
        self.pass_to(h)
        if type == -1:
            return True
        if type == CONTROL_ABORT:
            state = self.aborted.pop(h.producer_id, None)
            if state is None or not state[1]:
                return True
            self.kept.append(state[0])
            return False
        if type == CONTROL_COMMIT:
            if h.producer_id not in self.committed:
                return True
            self.committed.discard(h.producer_id)
            return False
        return False

    cdef CleanedTransactions copy(self):
        cdef CleanedTransactions other = CleanedTransactions()
        other.waiting = list(self.waiting)
        other.aborted = {producer_id: list(state) for producer_id, state in self.aborted.items()}
        other.committed = set(self.committed)
        other.kept = list(self.kept)
        return other
