"""How far each replica of a partition has come, and the offset that all in-sync ones have reached."""

from libc.stdint cimport int32_t, int64_t


cdef struct Replica:
    int64_t log_start
    int64_t log_end                # -1: not known in this epoch
    int64_t fetch_ms               # when it last fetched; -1: never in this epoch
    int64_t leader_end             # the leader's log end at that time
    int64_t caught_up_ms           # when it last had everything that the leader had
    int64_t broker_epoch           # of the process that fetched last; -1: not told
    int32_t node_id
    bint in_sync                   # counts for the high watermark
    bint start_moved               # its log start did, with its last fetch
    bint told                      # whoever keeps the in-sync replicas was told that it caught up


cdef class ReplicaProgress:
    """The other replicas of one partition, as its leader knows them. Owner's thread."""
    cdef Replica* replicas
    cdef Py_ssize_t count
    cdef readonly int32_t in_sync_count    # the leader included

    # These are the replicas now; what is known of those that stay is kept unless `anew`. `in_sync` has the leader,
    # `own_id`, in it, or is refused. In-sync replicas get the time from `now_ms` on to show that they still are.
    cdef int reset(self, int32_t own_id, object node_ids, object in_sync, bint anew, int64_t leader_end,
                   int64_t now_ms) except -1
    # The offset below which every in-sync replica has everything, `own_end` being the leader's own.
    cdef int64_t minimum(self, int64_t own_end) noexcept nogil
    # A follower whose log starts at `log_start` fetches from `log_end`. NULL when it is no replica of this partition,
    # or a later process of that broker has fetched already.
    cdef Replica* note(self, int32_t node_id, int64_t log_start, int64_t log_end, int64_t leader_end,
                       int64_t broker_epoch, int64_t now_ms) noexcept nogil
    # The in-sync follower among `node_ids` that has `offset` and has come furthest; -1 when there is none.
    cdef int32_t furthest(self, const int32_t* node_ids, Py_ssize_t count, int64_t offset) noexcept nogil
    cdef Replica* find(self, int32_t node_id) noexcept nogil
    cdef bint has(self, int32_t node_id) noexcept nogil
