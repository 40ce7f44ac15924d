"""How far each replica of a partition has come.

The high watermark of a partition is the smallest log end of its in-sync replicas, the leader's own among them. What the
leader counts as its own end (appended or flushed) is its durability class's business, not decided here. A follower's
fetch offset is its log end: it asks for what it does not have. (KIP-101, KIP-497; Kafka's Partition and Replica.)
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, realloc

cimport cython

from kraft_native.errors import InvalidArgumentError


@cython.final
cdef class ReplicaProgress:
    def __dealloc__(self):
        free(self.replicas)

    cdef int reset(self, int32_t own_id, object node_ids, object in_sync) except -1:
        cdef list others = [node_id for node_id in node_ids if node_id != own_id]
        cdef void* grown
        cdef Py_ssize_t i
        if own_id not in in_sync:
            raise InvalidArgumentError(f"isr: {list(in_sync)} does not contain the leader, {own_id}")
        if not set(in_sync) <= {own_id, *others}:
            raise InvalidArgumentError(f"isr: {list(in_sync)} contains nodes that are no replicas: {list(node_ids)}")
        if others:
            grown = realloc(self.replicas, <size_t>len(others) * sizeof(Replica))
            if grown == NULL:
                raise MemoryError(f"{len(others)} replicas")
            self.replicas = <Replica*>grown
        for i in range(len(others)):
            self.replicas[i].node_id = others[i]
            self.replicas[i].log_end = -1
            self.replicas[i].in_sync = others[i] in in_sync
        self.count = len(others)
        self.in_sync_count = <int32_t>len(set(in_sync))
        return 0

    cdef int64_t minimum(self, int64_t own_end) noexcept nogil:
        cdef int64_t end = own_end
        cdef Py_ssize_t i
        for i in range(self.count):
            if self.replicas[i].in_sync and self.replicas[i].log_end < end:
                end = self.replicas[i].log_end
        return end

    cdef bint note(self, int32_t node_id, int64_t log_end) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(self.count):
            if self.replicas[i].node_id == node_id:
                self.replicas[i].log_end = log_end
                return True
        return False

    cdef bint has(self, int32_t node_id) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(self.count):
            if self.replicas[i].node_id == node_id:
                return True
        return False

    def __len__(self) -> int:
        return self.count
