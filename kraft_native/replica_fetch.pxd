"""A follower's side of one leader: fetches for all partitions that it leads and this node follows."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kraft_native.buffer cimport Scratch
from kraft_native.frames cimport ReadWindow
from kraft_native.partition cimport Partition
from kraft_native.purgatory cimport Parked, Purgatory
from kraft_native.replica_wire cimport FetchWriter, FollowerIdentity, FollowerPart
from kraft_native.span cimport Span


cdef class FollowedPartition:
    """A partition's place in a fetcher."""
    cdef Partition partition
    cdef tuple key                 # (topic id, index)
    cdef int32_t leader_epoch      # in which it is followed
    cdef bint behind               # of the high watermark, by the last response; what is not known is behind
    cdef int64_t asked_from        # the first request that names it, -1: none; earlier responses are not about it


cdef class ReplicaFetcher:
    cdef readonly int64_t responses_total      # they come in the order of the requests
    cdef readonly int64_t bytes_total          # of records
    cdef int64_t spoke_ms          # when something came last, or was asked for while nothing was to come
    cdef FollowerIdentity identity
    cdef int32_t partition_bytes_max
    cdef int64_t response_bytes_limit
    cdef bytes client_id
    cdef object transport
    cdef int fd                    # of its socket, as long as requests may leave past it; -1: they may not
    cdef object on_error
    cdef object on_lost
    cdef object on_cut
    cdef dict followed             # key -> FollowedPartition
    cdef dict held                 # those of them that are throttled, and neither in the session nor in `changed`
    cdef ThrottleWait wait         # for the quota of those; None when none waits
    cdef dict changed              # those of them whose place the leader must be told; in order
    cdef dict forgotten            # keys that are in the leader's session and no longer followed
    cdef FetchWriter writer
    cdef ReadWindow landing
    cdef Scratch received
    cdef int64_t requests_total
    cdef int32_t session_id
    cdef int32_t session_epoch     # of the next request; 0: it begins a session
    cdef int32_t flushes_awaited   # of partitions whose last append must be durable before the leader hears of it
    cdef bint reading              # a response is being worked through
    cdef bint asks_soon            # the loop was asked to call `ask_now`

    cdef int ask(self) except -1
    # Sends a request: at once when it is `idle`, for then the transport has nothing left of an earlier one.
    cdef int put(self, bytes request, bint idle) except -1
    # At the end of this turn of the loop: what is followed in one turn goes into one request.
    cdef int ask_soon(self, Purgatory purgatory) except -1
    cdef int put_changed(self) except -1
    cdef int put_forgotten(self) except -1
    cdef int restart_session(self) except -1
    # The leader is to be told of its place next, unless it is throttled for now.
    cdef int place(self, FollowedPartition followed) except -1
    # False when there is no room to wait: then it is fetched.
    cdef bint hold(self, FollowedPartition followed) except -1
    # Looks again at those that are throttled.
    cdef int release(self) except -1
    cdef int take_frames(self) except -1
    cdef int take(self, const uint8_t* frame, Py_ssize_t size) except -1
    cdef int take_topics(self, Span* body) except -1
    cdef int take_part(self, FollowedPartition followed, FollowerPart* part) except -1
    cdef int cut(self, Partition partition, FollowerPart* part) except -1
    # Whether there was something to append.
    cdef bint append(self, FollowedPartition followed, FollowerPart* part) except -1
    cdef int start_within(self, Partition partition, const uint8_t* first, Py_ssize_t size) except -1
    cdef int await_flush(self, Partition partition) except -1
    cdef int flush_is_over(self) except -1
    cdef int stop_following(self, FollowedPartition followed, object code, object cause) except -1
    cdef int break_off(self, str why) except -1


cdef class FlushWaiter(Parked):
    """The next request waits until an append is durable here."""
    cdef ReplicaFetcher fetcher
    cdef Partition partition
    cdef int64_t end_offset

    cdef int done(self) except -1


cdef class ThrottleWait(Parked):
    """Throttled partitions wait for their quota."""
    cdef ReplicaFetcher fetcher
