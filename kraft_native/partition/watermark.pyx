"""The two rules for a high watermark, and the progress of a partition's replicas.

The high watermark of a partition is the smallest log end of its in-sync replicas, including the leader's own. The
leader's own end (appended or flushed) depends on its durability class, not on this module. A follower's fetch offset is
its log end: it requests what it does not have. (KIP-101, KIP-497; Kafka's Partition and Replica.)

The high watermark of the metadata quorum is the largest offset that a majority of the voters have reached (KIP-595).
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc

cimport cython

from kraft_native.base.mutants cimport BROKER_EPOCH_OF_A_FETCH_IS_IGNORED, mutant

from kraft_native.base.errors import InvalidArgumentError

cdef enum:
    VOTERS_ON_STACK = 16


def majority_value(list values not None: list[int]) -> int:
    """Largest number that more than half of `values` reach.

    With the voters' end offsets it is the quorum's high watermark, with the times of their Fetches the last moment at
    which a majority was alive. `values`: 64-bit integers in any order; they are not changed. InvalidArgumentError for
    an empty list, OverflowError for a larger number. Any thread.
    """
    cdef Py_ssize_t count = len(values)
    cdef int64_t few[VOTERS_ON_STACK]
    cdef int64_t* sorted_values = few
    if count == 0:
        raise InvalidArgumentError("values: an empty list has no majority")
    if count > VOTERS_ON_STACK:
        sorted_values = <int64_t*>malloc(<size_t>count * sizeof(int64_t))
        if sorted_values == NULL:
            raise MemoryError(f"{count} values")
    try:
        return insert_descending(values, sorted_values)
    finally:
        if sorted_values != few:
            free(sorted_values)


cdef int64_t insert_descending(list values, int64_t* sorted_values) except? -1:
    """Sort `values` into `sorted_values`, the largest first; return the one that a majority reaches."""
    cdef Py_ssize_t count = len(values), i, at
    cdef int64_t value
    for i in range(count):
        value = values[i]
        at = i
        while at > 0 and sorted_values[at - 1] < value:
            sorted_values[at] = sorted_values[at - 1]
            at -= 1
        sorted_values[at] = value
    return sorted_values[count // 2]


@cython.final
cdef class ReplicaProgress:
    def __dealloc__(self):
        free(self.replicas)

    cdef int reset(self, int32_t own_id, object node_ids, object in_sync, bint becomes_leader, int64_t leader_end,
                   int64_t now_ms) except -1:
        cdef list others = [node_id for node_id in node_ids if node_id != own_id]
        cdef Replica* grown
        cdef Replica* known
        cdef Replica* replica
        cdef Py_ssize_t i
        if own_id not in in_sync:
            raise InvalidArgumentError(f"isr: {list(in_sync)} does not contain the leader, {own_id}")
        if not set(in_sync) <= {own_id, *others}:
            raise InvalidArgumentError(f"isr: {list(in_sync)} contains nodes that are no replicas: {list(node_ids)}")
        grown = <Replica*>malloc(<size_t>max(1, len(others)) * sizeof(Replica))
        if grown == NULL:
            raise MemoryError(f"{len(others)} replicas")
        for i in range(len(others)):
            replica = &grown[i]
            known = NULL if becomes_leader else self.find(others[i])
            if known != NULL:
                replica[0] = known[0]
            else:
                replica.node_id = others[i]
                replica.log_start = replica.log_end = replica.fetch_ms = replica.broker_epoch = -1
                replica.leader_end = leader_end
                replica.caught_up_ms = -1
            if others[i] not in in_sync:
                replica.in_sync = False
            elif known == NULL or not known.in_sync:
                replica.in_sync = True
                replica.caught_up_ms = max(replica.caught_up_ms, now_ms)
            replica.start_moved = replica.reported = False
        free(self.replicas)
        self.replicas = grown
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

    cdef Replica* note(self, int32_t node_id, int64_t log_start, int64_t log_end, int64_t leader_end,
                       int64_t broker_epoch, int64_t now_ms) noexcept nogil:
        cdef Replica* replica = self.find(node_id)
        # A fetch of a terminated process says nothing about its successor, which may have lost records (KIP-903).
        if replica == NULL:
            return NULL
        if 0 <= broker_epoch < replica.broker_epoch and not mutant(BROKER_EPOCH_OF_A_FETCH_IS_IGNORED):
            return NULL
        # A replica that now has what the leader had at its last fetch was caught up then: it never has
        # everything while records keep coming.
        if log_end >= leader_end:
            replica.caught_up_ms = max(replica.caught_up_ms, now_ms)
        elif replica.fetch_ms >= 0 and log_end >= replica.leader_end:
            replica.caught_up_ms = max(replica.caught_up_ms, replica.fetch_ms)
        replica.start_moved = log_start != replica.log_start
        replica.log_start = log_start
        replica.log_end = log_end
        replica.leader_end = leader_end
        replica.broker_epoch = broker_epoch
        replica.fetch_ms = now_ms
        return replica

    cdef int32_t furthest(self, const int32_t* node_ids, Py_ssize_t count, int64_t offset) noexcept nogil:
        cdef Replica* best = NULL
        cdef Replica* replica
        cdef Py_ssize_t i
        for i in range(count):
            replica = self.find(node_ids[i])
            if replica != NULL and replica.in_sync and replica.log_start <= offset <= replica.log_end and (
                best == NULL or is_further(replica, best)
            ):
                best = replica
        return -1 if best == NULL else best.node_id

    cdef list lagging(self, int64_t since_ms, int64_t leader_end):
        cdef Py_ssize_t i
        return [self.replicas[i].node_id for i in range(self.count) if self.replicas[i].in_sync
                and self.replicas[i].caught_up_ms < since_ms and self.replicas[i].log_end != leader_end]

    cdef int64_t smallest_start(self, int64_t own_start, object is_alive) except? -1:
        cdef int64_t start = own_start
        cdef Py_ssize_t i
        for i in range(self.count):
            if self.replicas[i].log_start < start and is_alive(self.replicas[i].node_id):
                start = self.replicas[i].log_start
        return start

    cdef Replica* find(self, int32_t node_id) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(self.count):
            if self.replicas[i].node_id == node_id:
                return &self.replicas[i]
        return NULL

    cdef bint has(self, int32_t node_id) noexcept nogil:
        return self.find(node_id) != NULL

    def __len__(self) -> int:
        return self.count

    def followers(self) -> dict[int, tuple[int, bool]]:
        """Return by id the log end of each other replica (-1: unknown), and whether the high watermark waits for it."""
        cdef Py_ssize_t i
        return {self.replicas[i].node_id: (self.replicas[i].log_end, bool(self.replicas[i].in_sync))
                for i in range(self.count)}


cdef bint is_further(const Replica* one, const Replica* other) noexcept nogil:
    """Compare by log end, then by the time of having caught up, then by id (Kafka's ReplicaView.comparator)."""
    if one.log_end != other.log_end:
        return one.log_end > other.log_end
    if one.caught_up_ms != other.caught_up_ms:
        return one.caught_up_ms > other.caught_up_ms
    return one.node_id > other.node_id
