"""One request's pending answer: what handlers get, and what a connection gives them."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kraft_native.base.bytes_be cimport store_i32
from kraft_native.request.permissions cimport PermissionCache, Permissions
from kraft_native.request.replication_quota cimport ReplicationQuota
from kraft_native.request.times cimport Moments


cdef enum ReplyState:
    REPLY_OPEN                     # not answered yet
    REPLY_ANSWERED                 # `parts` leave when the earlier replies have left
    REPLY_SKIPPED                  # nothing is sent, the next reply follows at once
    REPLY_REFUSED                  # the connection is to be closed


cdef class ReplyWaiter:
    """A request that waits for something before it can be answered."""

    # Its client has disconnected: it releases everything, and need not answer. Loop thread, called once.
    cdef int abandon(self) except -1


cdef class ReplySink:
    """Receiver of finished replies: a connection, or a test's list. Python classes may extend it.

    `reply_finished` is called once per reply, on the loop's thread, from inside the code that answered. It must not
    call back into that code. It returns 0.
    """
    # type: object
    cdef public object principal   # identity of the other side, which authentication sets
    cdef Permissions permissions   # of the principal, once a request needed them; else None
    cpdef int reply_finished(self, Reply reply) except -1
    # Accepts `size` bytes, header included, as the whole answer when they can leave at once; else returns False, and
    # nothing has changed.
    cdef bint take_at_once(self, Reply reply, const uint8_t* data, Py_ssize_t size) except -1
    # An object that keeps the body of the request that a handler has, after the handler returns. `body` is set to where
    # the body lies then.
    cdef object keep_body(self, const uint8_t** body, Py_ssize_t size)


cdef inline Permissions permissions_of(PermissionCache cache, ReplySink sink):
    """Return what the client of a connection may do; None without an authorizer. The cost is a comparison once it is
    known."""
    if cache is None or sink is None:
        return None
    if sink.permissions is None or sink.permissions.principal is not sink.principal:
        sink.permissions = cache.of(sink)
    return sink.permissions


cdef class Reply:
    """One request's place in its connection's row. Replies may be finished in any order; they leave in the order of
    the requests. Loop thread only. Exactly one of `finish`, `finish_copy`, `answer`, `answer_parts`, `skip` and
    `refuse`, exactly once."""
    # type: ReplySink | None
    cdef readonly ReplySink sink   # None once the connection is closed; then finishing drops the parts
    cdef Reply after               # the connection's row: the request that came next
    cdef Py_ssize_t held_bytes     # what the connection counts for this request until it is answered

    cdef ReplyWaiter waiter        # notified when the connection closes before the answer; None: nobody
    cdef Moments at                # kept by its connection
    cdef bint alone                # set by handlers: nothing further of its connection is processed until the answer
    cdef int state
    cdef public int32_t throttle_ms        # set by handlers before the answer: its client exceeded a quota
    cdef ReplicationQuota time_quota       # charged for its handler's time, once some of it was
    cdef int64_t counted_ns        # the time charged so far
    cdef int64_t stepped_ns        # of the steps after its handler returned
    cdef readonly int16_t api_key
    cdef readonly int16_t api_version
    cdef readonly int32_t correlation_id
    cdef readonly bytes client_id  # type: bytes | None  # None when the client gave none
    cdef readonly list parts  # type: list[Buffer] | None  # bytes that follow the 4-byte length; None unless answered
    cdef readonly str reason  # type: str | None  # of a refusal; None otherwise

    # `parts`: buffers (bytes, Slice, memoryview) that follow the 4-byte length, response header included. They must not
    # change until sent: bytes and slices cannot, and both stay pinned until the socket has accepted them.
    cpdef int finish(self, list parts) except -1
    # The same for one part, which is copied now: without an object when no reply precedes it in the row.
    cdef int finish_copy(self, const uint8_t* data, Py_ssize_t size) except -1
    # The same for one body; the response header (version 0 or 1) is added before it.
    cpdef int answer(self, object body, int header_version) except -1
    cpdef int answer_parts(self, list body, int header_version) except -1
    # No reply, and the connection continues: a Produce with acks=0 that succeeded.
    cpdef int skip(self) except -1
    # Charges the handler's time up to now that was not charged yet; nothing once the handler returned and was charged.
    cdef int count_time(self, ReplicationQuota quota, int64_t now_ns, int64_t now_ms) except -1
    # The same for a step of the handler's work.
    cdef int count_step(self, int64_t time_ns, int64_t now_ns) except -1
    # No reply, and the connection is closed: a body that cannot be parsed, a version out of range, acks=0 that failed.
    # `reason` is counted: one word of a fixed set, never text that a peer chose.
    cpdef int refuse(self, str reason=*) except -1


cdef class RequestHandler:
    """Handler of one api key. Exceptions: `ProtocolError` counts as a malformed request and closes the connection; all
    others are internal errors, are reported, and stop the node."""
    cdef int64_t[160] errors       # by Kafka's code; other codes under the first

    cdef void count_error(self, int code) noexcept

    # Answers `reply` before it returns, or keeps it and answers later. `body` follows the request header; it is valid
    # only during the call. `ReplySink.keep_body` keeps it for longer.
    cdef int handle(self, Reply reply, const uint8_t* body, Py_ssize_t body_bytes) except -1


cdef class LateHandler(RequestHandler):
    """Handler that is created when its first request comes."""
    cdef readonly RequestHandler handler  # type: RequestHandler | None  # None before that
    cdef object create


cdef enum:
    REPLY_HEADER_BYTES_MAX = 5


cdef inline Py_ssize_t put_reply_header(uint8_t* to, int32_t correlation_id, int header_version) noexcept nogil:
    """Write a response header: correlation id, and from version 1 an empty set of tagged fields. Return its size."""
    store_i32(to, correlation_id)
    if header_version == 0:
        return 4
    to[4] = 0
    return 5


# The same as bytes.
cdef bytes make_reply_header(int32_t correlation_id, int header_version)
