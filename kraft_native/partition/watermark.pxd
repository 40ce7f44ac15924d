"""The progress of each replica of a partition, and the offset that all in-sync ones have reached."""

from libc.stdint cimport int32_t, int64_t


cdef struct Replica:
    int64_t log_start
    int64_t log_end                # -1: not known in this epoch
    int64_t fetch_ms               # when it last fetched; -1: never in this epoch
    int64_t leader_end             # its leader's log end then

    int64_t caught_up_ms           # when it last had everything that the leader had
    int64_t broker_epoch           # of the process that fetched last; -1: not given
    int32_t node_id
    bint in_sync                   # included in the high watermark
    bint start_moved               # its log start moved with its last fetch
    bint reported                      # the keeper of the in-sync replicas knows that it caught up


cdef class ReplicaProgress:
    """The other replicas of one partition, as its leader knows them. Owner's thread."""
    cdef Replica* replicas
    cdef Py_ssize_t count
    cdef readonly int32_t in_sync_count    # the leader included

    # Sets the replicas; the state of those that stay is kept unless `becomes_leader`. `in_sync` must contain the
    # leader, `own_id`. In-sync replicas get the time from `now_ms` on to show that they still are.
    cdef int reset(self, int32_t own_id, object node_ids, object in_sync, bint becomes_leader, int64_t leader_end,
                   int64_t now_ms) except -1
    # The offset below which every in-sync replica has everything; `own_end` is the leader's own end.
    cdef int64_t minimum(self, int64_t own_end) noexcept nogil
    # Records a fetch from `log_end` of a follower whose log starts at `log_start`. NULL when it is no replica of this
    # partition, or a later process of that broker has fetched already.
    cdef Replica* note(self, int32_t node_id, int64_t log_start, int64_t log_end, int64_t leader_end,
                       int64_t broker_epoch, int64_t now_ms) noexcept nogil
    # The in-sync follower among `node_ids` that has `offset` and is furthest ahead; -1 when none does.
    cdef int32_t furthest(self, const int32_t* node_ids, Py_ssize_t count, int64_t offset) noexcept nogil
    # The in-sync followers that have not been caught up since that time, nor are now.
    cdef list lagging(self, int64_t since_ms, int64_t leader_end)
    # The smallest log start of the leader and of the followers for which `is_alive(node id)` holds; -1: one of them is
    # not known.
    cdef int64_t smallest_start(self, int64_t own_start, object is_alive) except? -1
    cdef Replica* find(self, int32_t node_id) noexcept nogil
    cdef bint has(self, int32_t node_id) noexcept nogil
