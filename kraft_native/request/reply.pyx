"""One request's pending answer: what handlers get, and what a connection gives them.

A handler gets a `Reply` and the request's body. It answers at once or later. It need not know the earlier replies of
the connection's row, whether the connection still exists, or how bytes leave. A response on the wire is int32 length,
response header (int32 correlation id; from version 1 tagged fields), body; the connection adds the length.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

cimport cython

from kraft_native.base.errors import InvalidArgumentError


cdef enum:
    ERROR_CODES = 160


cdef class ReplyWaiter:
    """Base of objects that wait with a reply; not used by itself."""

    cdef int abandon(self) except -1:
        raise AssertionError(f"{type(self).__name__} does not say how it lets go")


cdef class ReplySink:
    """Receiver of finished replies. Extend it and override `reply_finished`, which must return 0."""

    cpdef int reply_finished(self, Reply reply) except -1:
        raise AssertionError(f"{type(self).__name__} does not say what happens to replies")

    cdef bint take_at_once(self, Reply reply, const uint8_t* data, Py_ssize_t size) except -1:
        return False

    cdef object keep_body(self, const uint8_t** body, Py_ssize_t size):
        cdef bytes copied = PyBytes_FromStringAndSize(<const char*>body[0], size)
        body[0] = <const uint8_t*>PyBytes_AS_STRING(copied)
        return copied


@cython.final
@cython.freelist(1024)
cdef class Reply:
    """One request's place in its connection's row. Call exactly one of `finish`, `answer`, `answer_parts`, `skip` and
    `refuse`, exactly once, now or later, on the loop's thread. Replies leave in the order of the requests.

    Connections create them; tests may."""

    def __init__(self, ReplySink sink not None, int api_key, int api_version, int correlation_id,
                 bytes client_id=None):
        self.sink = sink
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id

    @property
    def abandoned(self) -> bool:
        """True once the connection is closed: finishing is still allowed, and does nothing."""
        return self.sink is None

    @property
    def answered(self) -> bool:
        """True once parts were given."""
        return self.state == REPLY_ANSWERED

    @property
    def skipped(self) -> bool:
        """True when there will be no reply, by agreement."""
        return self.state == REPLY_SKIPPED

    @property
    def refused(self) -> bool:
        """True when the connection is to be closed instead."""
        return self.state == REPLY_REFUSED

    cpdef int finish(self, list parts) except -1:  # type: (list[Buffer]) -> int
        """Answer with `parts`, which follow the 4-byte length, response header included; they must not change until
        sent."""
        if parts is None:
            raise TypeError("parts must be a list of buffers, not None")
        return settle(self, REPLY_ANSWERED, parts, None)

    cdef int finish_copy(self, const uint8_t* data, Py_ssize_t size) except -1:
        if self.state == REPLY_OPEN and self.sink is not None and self.sink.take_at_once(self, data, size):
            self.state = REPLY_ANSWERED
            return 0
        return settle(self, REPLY_ANSWERED, [PyBytes_FromStringAndSize(<const char*>data, size)], None)

    cpdef int answer(self, object body, int header_version) except -1:  # type: (Buffer, int) -> int
        """Answer with the response header of that version, then `body`."""
        check_header_version(header_version)
        return settle(self, REPLY_ANSWERED, [make_reply_header(self.correlation_id, header_version), body], None)

    cpdef int answer_parts(self, list body, int header_version) except -1:  # type: (Sequence[Buffer], int) -> int
        """Answer likewise with a body in parts, which must not change until sent."""
        check_header_version(header_version)
        return settle(self, REPLY_ANSWERED, [make_reply_header(self.correlation_id, header_version), *body], None)

    cpdef int skip(self) except -1:
        """Send no reply, and keep the connection open."""
        return settle(self, REPLY_SKIPPED, None, None)

    cdef int count_time(self, ReplicationQuota quota, int64_t now_ns, int64_t now_ms) except -1:
        cdef int64_t until_ns = self.at.handed_ns if self.at.handed_ns != 0 else now_ns
        cdef int64_t spent_ns = until_ns - self.at.begun_ns + self.stepped_ns - self.counted_ns
        self.time_quota = quota
        self.counted_ns += spent_ns
        return quota.record(spent_ns, now_ms)

    cdef int count_step(self, int64_t time_ns, int64_t now_ns) except -1:
        if self.at.handed_ns != 0:         # else its handler has not returned: its time is counted then
            self.stepped_ns += time_ns
            if self.time_quota is not None:
                self.count_time(self.time_quota, now_ns, now_ns // 1_000_000)
        return 0

    cpdef int refuse(self, str reason="malformed") except -1:
        """Send no reply, and close the connection. `reason` is counted: one word of a fixed set."""
        return settle(self, REPLY_REFUSED, None, reason)


cdef int settle(Reply reply, int state, list parts, str reason) except -1:
    """Set the one and only outcome of `reply` and notify its sink."""
    cdef ReplySink sink = reply.sink
    if reply.state != REPLY_OPEN:
        raise AssertionError(f"a request of api key {reply.api_key} was answered twice")
    reply.state = state
    reply.waiter = None                # it holds the reply, too
    if sink is None:
        return 0
    reply.parts = parts
    reply.reason = reason
    return sink.reply_finished(reply)


cdef class RequestHandler:
    """Handler of one api key, in compiled code. `handle_bytes` does the same for callers that have the body as an
    object."""

    cdef int handle(self, Reply reply, const uint8_t* body, Py_ssize_t body_bytes) except -1:
        raise AssertionError(f"{type(self).__name__} does not say how requests are served")

    cdef void count_error(self, int code) noexcept:
        self.errors[code + 1 if -1 <= code < ERROR_CODES - 1 else 0] += 1

    def error_counts(self) -> dict[int, int]:
        """Errors returned since the start, by Kafka's code: of whole requests, and of each partition."""
        cdef int place
        return {place - 1: self.errors[place] for place in range(ERROR_CODES) if self.errors[place] > 0}

    def handle_bytes(self, Reply reply not None, bytes body not None) -> None:
        """Answer `reply` before returning, or keep it and answer later."""
        self.handle(reply, <const uint8_t*>PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body))


@cython.final
cdef class LateHandler(RequestHandler):
    """Handler that passes all requests on to the one that `create()` returns at the first of them. So an API that few
    nodes need costs the others nothing."""

    def __init__(self, create not None: Callable[[], RequestHandler]):
        self.create = create

    cdef int handle(self, Reply reply, const uint8_t* body, Py_ssize_t body_bytes) except -1:
        if self.handler is None:
            self.handler = self.create()
        return self.handler.handle(reply, body, body_bytes)


cdef bytes make_reply_header(int32_t correlation_id, int header_version):
    cdef uint8_t header[REPLY_HEADER_BYTES_MAX]
    cdef Py_ssize_t size = put_reply_header(header, correlation_id, header_version)
    return PyBytes_FromStringAndSize(<char*>header, size)


def reply_header(int correlation_id, int header_version) -> bytes:
    """The response header of version 0 or 1, as bytes."""
    check_header_version(header_version)
    return make_reply_header(correlation_id, header_version)


cdef int check_header_version(int header_version) except -1:
    if header_version not in (0, 1):
        raise InvalidArgumentError(f"header_version must be 0 or 1, not {header_version}")
    return 0
