"""Share sessions: what the members of share groups fetch, kept between their requests."""

from libc.stdint cimport int32_t, int64_t

from kraft_native.partition.partition cimport Partition
from kraft_native.request.reply cimport ReplySink


cdef class ShareEntry:
    """A partition in a session."""
    cdef bytes topic_id
    cdef int32_t index
    cdef Partition partition       # None until it was found here


cdef class ShareSession:
    cdef readonly bytes group
    cdef readonly bytes member
    cdef readonly int32_t epoch            # that the next request must carry
    cdef ReplySink sink            # the connection of its last request
    cdef dict entries              # (topic id, index) -> ShareEntry, the next to serve first


cdef class ShareSessions:
    """Loop thread only."""
    cdef readonly int64_t sessions_max
    cdef dict sessions             # (group, member) -> ShareSession
    cdef dict by_sink              # ReplySink -> dict of its sessions, as keys
    cdef dict counts               # group -> number of its sessions, at least 1
    cdef object on_connection      # called with a connection that gets its first session

    cdef ShareSession find(self, bytes group, bytes member)
    # None when there are too many.
    cdef ShareSession open(self, bytes group, bytes member, ReplySink sink)
    cdef int move(self, ShareSession session, ReplySink sink) except -1
    cdef int leave_sink(self, ShareSession session) except -1
    cdef int close(self, ShareSession session) except -1
    cdef bint has_group(self, bytes group)
