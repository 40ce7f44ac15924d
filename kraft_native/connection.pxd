"""One client's connection: requests in, replies out in their order, within limits."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kraft_native.channel cimport RequestChannel
from kraft_native.endpoint cimport Endpoint
from kraft_native.frames cimport FrameReader
from kraft_native.header cimport RequestHeader
from kraft_native.reply cimport Reply
from kraft_native.request_times cimport RequestTimes
from kraft_native.span cimport Span


cdef enum:
    READY_BYTES_MAX = 256 * 1024   # replies of one read are sent when they reach this, so that a stall comes in time
    REPLY_AT_ONCE_BYTES_MAX = 16 * 1024    # larger ones are worth an object of their own
    TELLING_BYTES_MAX = 2 * 1024    # of what the socket did not take, given to the transport to learn when it has room

cdef enum:
    STALL_ROW = 1
    STALL_REQUEST = 2
    STALL_WRITE = 4
    STALL_MEMORY = 8
    STALL_ENDED = 16
    STALL_QUOTA = 32
    STALL_SLICE = 64


cdef class Connection(Endpoint):
    cdef readonly RequestChannel channel
    cdef readonly object listener  # whoever made it; asked whether it may stay, told when it is gone
    cdef readonly str peer_host    # empty before the connection is made
    cdef readonly int peer_port
    cdef readonly str reason       # why it is closed or being closed; None while it is open
    cdef readonly int32_t in_progress
    cdef RequestTimes times        # the channel's
    cdef int64_t arrived_ns        # when it was last read from
    cdef FrameReader frames
    cdef readonly object transport  # None before the connection is made, and once it is gone
    cdef int fd                    # of a plain socket while it may be written to; -1: only through the transport
    cdef Reply head                # the row: the oldest request whose reply has not left
    cdef Reply tail
    cdef Reply barrier             # nothing is looked at until this one is answered
    cdef bytes deferred            # the barrier's body, until all before it are answered; None: it is worked on
    cdef list unsent               # goes before all else once the transport has sent what it has; None: nothing
    cdef bytes client_id           # as the last request had it
    cdef Py_ssize_t ready_bytes    # about what was answered since the last write
    cdef int stall                 # why no request is looked at; 0: go on
    cdef int64_t slice_end_ns      # then others have their turn
    cdef int muted                 # times that are not over yet for which the client is left alone
    cdef bint reading
    cdef bint dispatching
    cdef bint closing              # nothing is sent or looked at any more
    cdef bint unseen               # bytes are kept that were not looked at
    cdef bint memory_queued        # in the memory's queue
    cdef bint active               # something came or went since the last sweep
    cdef int64_t active_ms
    cdef int64_t frame_since_ms    # -1: no frame under way, or not swept since it began
    cdef int64_t blocked_since_ms  # -1: the peer reads, or was not swept since it stopped
    cdef int64_t blocked_bytes

    cdef int work(self) except -1
    cdef int look(self) except -1
    cdef int defer(self, bint fresh) except -1
    cdef int dispatch(self, const uint8_t* frame, Py_ssize_t size) except -1
    cdef int hand_over(self, Reply reply, const uint8_t* body, Py_ssize_t body_bytes) except -1
    cdef bint is_behind(self, Reply reply)
    cdef int work_on_deferred(self) except -1
    cdef int answer_api_versions(self, RequestHeader* header, Span* body) except -1
    cdef Reply new_reply(self, RequestHeader* header)
    cdef int worked_on(self, Reply reply) except -1
    cdef int refuse(self, str reason) except -1
    cpdef int delay(self, int32_t throttle_ms) except -1
    cdef int flush(self) except -1
    cdef int take_head(self) except -1
    cdef int send(self) except -1
    cdef int update_reading(self) except -1
    cdef int close_after_sent(self, str reason) except -1
    cdef int release(self) except -1
