"""One client's connection: requests in, replies out in their order, within limits."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kraft_native.base.span cimport Span
from kraft_native.net.restraints cimport RestrainedEndpoint
from kraft_native.request.header cimport RequestHeader
from kraft_native.request.reply cimport Reply
from kraft_native.request.times cimport RequestTimes


cdef enum:
    READY_BYTES_MAX = 256 * 1024   # replies of one read are sent when they reach this, so that a stall comes in time
    REPLY_AT_ONCE_BYTES_MAX = 16 * 1024    # larger ones are worth an object of their own
    NOTICE_BYTES_MAX = 2 * 1024     # of unsent bytes, given to the transport to learn when the socket has room


cdef class Connection(RestrainedEndpoint):
    # type: Listener
    cdef readonly object listener  # its creator; admits the connection, and is notified when it is removed
    cdef readonly str peer_host    # empty before the connection is made
    cdef readonly int peer_port
    cdef readonly int32_t in_progress
    cdef RequestTimes times        # the channel's
    cdef int64_t offered_ns        # when its last read began
    cdef int64_t arrived_ns        # when that had ended
    cdef readonly object transport  # type: Transport | None  # None before the connection is made, and after it is lost
    cdef int fd                    # of a plain socket while it may be written to; -1: only through the transport
    cdef Reply head                # the row: the oldest request whose reply has not left
    cdef Reply tail
    cdef Reply barrier             # no request is processed until this one is answered
    cdef bytes deferred            # the barrier's body, until all before it are answered; None: in progress

    cdef list unsent               # goes first once the transport has sent its bytes; None: nothing
    cdef bytes client_id           # from the last request
    cdef Py_ssize_t ready_bytes    # about what was answered since the last write

    cdef int64_t slice_end_ns      # then other connections get theirs
    cdef bint reading
    cdef bint dispatching
    cdef bint unseen               # kept bytes exist that were not processed
    cdef bint memory_queued        # in the memory's queue
    cdef int64_t active_ms
    cdef int64_t frame_since_ms    # -1: no frame under way, or not swept since it began
    cdef int64_t blocked_since_ms  # -1: the peer reads, or was not swept since it stopped
    cdef int64_t blocked_bytes

    cdef int work(self) except -1
    cdef int look(self) except -1
    cdef int defer(self, bint fresh) except -1
    cdef int dispatch(self, const uint8_t* frame, Py_ssize_t size) except -1
    cdef int dispatch_token(self, const uint8_t* frame, Py_ssize_t size) except -1
    cdef int hand_over(self, Reply reply, const uint8_t* body, Py_ssize_t body_bytes) except -1
    cdef bint is_behind(self, Reply reply)
    cdef int work_on_deferred(self) except -1
    cdef int answer_api_versions(self, RequestHeader* header, Span* body) except -1
    cdef Reply new_reply(self, RequestHeader* header)
    cdef int worked_on(self, Reply reply) except -1
    cdef int refuse(self, str reason) except -1
    cdef int flush(self) except -1
    cdef int take_head(self) except -1
    cdef int send(self) except -1
    cdef int close_after_sent(self, str reason) except -1
    cdef int release(self) except -1
