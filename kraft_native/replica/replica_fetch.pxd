"""A follower's side of one leader: fetches of all partitions that it leads and this node follows."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kraft_native.base.span cimport Span
from kraft_native.file.buffer cimport Scratch
from kraft_native.net.frames cimport ReadWindow
from kraft_native.partition.partition cimport Partition
from kraft_native.partition.purgatory cimport Parked, Purgatory
from kraft_native.replica.replica_wire cimport FetchWriter, FollowerIdentity, FollowerPart


cdef class FollowedPartition:
    """A partition's state in a fetcher."""
    cdef Partition partition
    cdef tuple key                 # (topic id, index)
    cdef int32_t leader_epoch      # of the role as a follower
    cdef bint behind               # the last high watermark; true while that is unknown
    cdef int64_t requested_from        # the first request that names it, -1: none; earlier responses exclude it


cdef class ReplicaFetcher:
    cdef readonly int64_t responses_total      # they come in the order of the requests
    cdef readonly int64_t bytes_total          # of records
    cdef int64_t spoke_ms          # time of the last bytes, or of a request sent while none was outstanding
    cdef FollowerIdentity identity
    cdef int32_t partition_bytes_max
    cdef int64_t response_bytes_limit
    cdef bytes client_id
    cdef object transport
    cdef int fd                    # of its socket, as long as requests may bypass the transport; -1: they may not
    cdef object on_error
    cdef object on_lost
    cdef object on_cut
    cdef dict followed             # key -> FollowedPartition
    cdef dict held                 # the throttled ones, neither in the session nor in `changed`

    cdef ThrottleWait wait         # for the quota of those; None when none waits
    cdef dict changed              # those whose position the next request must carry; in order

    cdef dict session              # key -> leader epoch of those in the leader's session, by what was sent
    cdef dict forgotten            # those of them that the next request removes: they are not followed, or throttled
    cdef FetchWriter writer
    cdef ReadWindow landing
    cdef Scratch received
    cdef int64_t requests_total
    cdef int32_t session_id
    cdef int32_t session_epoch     # of the next request; 0: it begins a session
    cdef int32_t flushes_awaited   # partitions whose last append must be durable before it is reported
    cdef bint reading              # a response is being processed
    cdef bint sends_soon            # the loop will call `send_now`

    cdef int send_request(self) except -1
    # Sends a request: directly when it is `idle`, because then the transport has no rest of an earlier one.
    cdef int put(self, bytes request, bint idle) except -1
    # At the end of this loop iteration: one request for all that is followed in one iteration.
    cdef int send_soon(self, Purgatory purgatory) except -1
    cdef int put_changed(self) except -1
    cdef int put_forgotten(self) except -1
    cdef int restart_session(self) except -1
    # Puts its position into the next request, unless it is throttled for now.
    cdef int place(self, FollowedPartition followed) except -1
    # False when there is no room to wait: then it is fetched.
    cdef bint hold(self, FollowedPartition followed) except -1
    cdef int forget(self, FollowedPartition followed) except -1
    # Checks the throttled ones again.
    cdef int release(self) except -1
    cdef int take_frames(self) except -1
    cdef int take(self, const uint8_t* frame, Py_ssize_t size) except -1
    cdef int take_topics(self, Span* body) except -1
    cdef int take_part(self, FollowedPartition followed, FollowerPart* part) except -1
    cdef int cut(self, Partition partition, FollowerPart* part) except -1
    # Returns whether there was something to append.
    cdef bint append(self, FollowedPartition followed, FollowerPart* part) except -1
    cdef int start_within(self, Partition partition, const uint8_t* first, Py_ssize_t size) except -1
    cdef int await_flush(self, Partition partition) except -1
    cdef int flush_is_over(self) except -1
    cdef int stop_following(self, FollowedPartition followed, object code, object cause) except -1
    cdef int break_off(self, str why) except -1


cdef class FlushWaiter(Parked):
    """Delay of the next request until an append is durable here."""
    cdef ReplicaFetcher fetcher
    cdef Partition partition
    cdef int64_t end_offset

    cdef int done(self) except -1


cdef class ThrottleWait(Parked):
    """Wait of throttled partitions for their quota."""
    cdef ReplicaFetcher fetcher
