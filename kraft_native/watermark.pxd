"""How far each replica of a partition has come, and the offset that all in-sync ones have reached."""

from libc.stdint cimport int32_t, int64_t


cdef struct Replica:
    int64_t log_end
    int32_t node_id
    bint in_sync


cdef class ReplicaProgress:
    """The other replicas of one partition, as its leader knows them. Owner's thread."""
    cdef Replica* replicas
    cdef Py_ssize_t count
    cdef readonly int32_t in_sync_count    # the leader included

    # Forgets everything and begins with these; `in_sync` has the leader, `own_id`, in it or is refused.
    cdef int reset(self, int32_t own_id, object node_ids, object in_sync) except -1
    # The offset below which every in-sync replica has everything, `own_end` being the leader's own.
    cdef int64_t minimum(self, int64_t own_end) noexcept nogil
    # Notes a follower's log end; False when it is no replica of this partition.
    cdef bint note(self, int32_t node_id, int64_t log_end) noexcept nogil
    cdef bint has(self, int32_t node_id) noexcept nogil
