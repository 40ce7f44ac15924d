"""Dispatch of the requests of one kind of listener: versions served, handlers, limits, counts.

There is one channel per kind of listener (broker, controller), because these serve different apis. Its connections
share memory (`RequestMemory`, one per node) and the buffer of their writes.

Replies that are finished outside of a read leave at the end of the loop iteration, one write per connection. The
channel schedules one callback per iteration, however many connections there are.
"""

from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memset
from cpython.bytes cimport PyBytes_FromStringAndSize

cimport cython

from kraft_native.base.span cimport span_bytes, span_uvarint
from kraft_native.file.buffer cimport Slice
from kraft_native.request.header cimport span_skip_tags
from kraft_native.request.reply cimport REPLY_REFUSED

from kraft_native.base.errors import InvalidArgumentError

cdef enum:
    ANSWER_COUNTED_MIN = 16 * 1024     # smaller answers do not count as memory


cdef int64_t within(str name, object value, int64_t low, int64_t high) except? -1:
    if not low <= value <= high:
        raise InvalidArgumentError(f"{name} must be {low} to {high}, not {value}")
    return value


cdef enum:
    SOFTWARE_BYTES_MAX = 128       # of a name or a version that is kept
    SOFTWARE_MAX = 1000            # different ones


cdef bint is_software_name(const uint8_t* p, Py_ssize_t count) noexcept nogil:
    """Allow letters, digits, `-` and `.`, the last two not at the ends (KIP-511; Kafka's ApiVersionsRequest)."""
    cdef Py_ssize_t i
    cdef uint8_t c
    if count == 0:
        return False
    for i in range(count):
        c = p[i]
        if c'a' <= c <= c'z' or c'A' <= c <= c'Z' or c'0' <= c <= c'9':
            continue
        if (c == c'-' or c == c'.') and 0 < i < count - 1:
            continue
        return False
    return True


@cython.final
cdef class RequestChannel:
    """Shared state of the connections of one kind of listener. Loop thread only; counters may be read at any time.

    `on_request(reply, api_key, api_version, body)` gets requests without a compiled handler. It answers `reply` now or
    later. Unless the api is `pipelined`, it gets a request when all before it on its connection are answered, and
    nothing further is processed until it is answered. A `ProtocolError` from it, before it returns, closes the
    connection as malformed. `on_failure(exception)` gets everything else that it or a handler raises: an internal
    error, after which the connection is closed and the node should stop. `call_soon` and `call_later` are the loop's;
    the second is for connections that are muted because their client exceeded a quota. `slices`: the queue of all
    channels of the loop; None: one of its own. `principal`: identity of connections before authentication.
    """

    def __init__(self, str name not None, RequestMemory memory not None, *,
                 on_request: Callable[[Reply, int, int, bytes], object], on_failure: Callable[[BaseException], object],
                 call_soon: Callable[[Callable[[], None]], Any],
                 call_later: Callable[[float, Callable[[], None]], Any] | None = None, SliceQueue slices=None,
                 principal: object = None,
                 request_bytes_max: int = 100 * 1024 * 1024, answer_bytes_max: int = 100 * 1024 * 1024,
                 requests_in_progress_max: int = 256, frame_timeout_ms: int = 10_000, idle_timeout_ms: int = 600_000,
                 reply_timeout_ms: int = 30_000, rate_min_bytes_per_second: int = 16 * 1024):
        """Set the limits of connections.

        `answer_bytes_max`: of one reply, without pages of the log; a larger one is not sent, and its connection is
        closed. `frame_timeout_ms`: from a frame's first byte to its last. `reply_timeout_ms`: how long a peer may leave
        replies unread. Both grow with the bytes that passed, at `rate_min_bytes_per_second`, so that slow lines may
        carry large frames. `idle_timeout_ms`: without any request; -1: unlimited.
        """
        self.name = name
        self.principal = principal
        self.memory = memory
        self.times = RequestTimes()
        self.outgoing = Outgoing()
        self.slices = SliceQueue(call_soon, self.fail_later) if slices is None else slices
        self.on_request = on_request
        self.on_failure = on_failure
        self.call_soon = call_soon
        self.call_later = call_later
        memset(self.apis, 0, sizeof(self.apis))
        self.handlers = [None] * API_KEYS
        self.api_versions = {}
        self.invalid_client = {}
        self.software = {}
        self.woken = []
        self.connections = {}
        self.closed = {}
        self.request_bytes_max = <int32_t>within("request_bytes_max", request_bytes_max, 14, 0x7FFFFFFF - 4)
        self.answer_bytes_max = within("answer_bytes_max", answer_bytes_max, 1, 0x7FFFFFFF)
        self.requests_in_progress_max = <int32_t>within("requests_in_progress_max", requests_in_progress_max,
                                                        1, 1 << 20)
        self.frame_timeout_ms = within("frame_timeout_ms", frame_timeout_ms, 1, 1 << 40)
        self.idle_timeout_ms = within("idle_timeout_ms", idle_timeout_ms, -1, 1 << 40)
        self.reply_timeout_ms = within("reply_timeout_ms", reply_timeout_ms, 1, 1 << 40)
        self.rate_min_bytes_per_second = within("rate_min_bytes_per_second", rate_min_bytes_per_second, 1, 1 << 40)

    def serve(self, int api_key, int first_version, int last_version, int flexible_from,
              RequestHandler handler=None, *, bint pipelined=False) -> None:
        """Serve an api, by a compiled handler or by `on_request`. `flexible_from` is the first version with request
        header version 2 (32767: none). `pipelined`: `on_request` gets a request at once, and further requests of its
        connection are processed meanwhile; replies keep their order. Takes effect with the next request."""
        cdef Api* api
        within("api_key", api_key, 0, API_KEYS - 1)
        within("first_version", first_version, 0, 0x7FFF)
        within("last_version", last_version, first_version, 0x7FFF)
        within("flexible_from", flexible_from, 0, 0x7FFF)
        api = &self.apis[api_key]
        api.first_version = first_version
        api.last_version = last_version
        api.flexible_from = flexible_from
        api.pipelined = pipelined
        api.served = True
        self.handlers[api_key] = handler

    def withdraw(self, int api_key) -> None:
        """Close connections that send requests of this key from now on."""
        within("api_key", api_key, 0, API_KEYS - 1)
        self.apis[api_key].served = False
        self.handlers[api_key] = None

    def limit_clients(self, ClientQuotas quotas not None) -> None:
        """Charge the time of ApiVersions to these quotas; handlers, `on_request` too, charge for what they serve."""
        self.quotas = quotas

    def serve_api_versions(self, dict answers not None: dict[int, bytes], dict invalid not None: dict[int, bytes],
                           bytes unsupported not None, int flexible_from=3) -> None:
        """Set the bodies by version that answer ApiVersions. There is the answer, the one with INVALID_REQUEST for a
        client with an invalid name, and, in version 0, the one with UNSUPPORTED_VERSION for any other version. May be
        called again when features change."""
        if not answers or set(answers) != set(range(min(answers), max(answers) + 1)) or set(invalid) != set(answers):
            raise InvalidArgumentError(f"answers and invalid must be for the same versions in a row, not "
                                       f"{sorted(answers)} and {sorted(invalid)}")
        self.serve(API_VERSIONS_KEY, min(answers), max(answers), flexible_from)
        self.api_versions = dict(answers)
        self.invalid_client = dict(invalid)
        self.api_versions_unsupported = unsupported

    cdef bytes api_versions_body(self, int16_t api_version, Span* body, Endpoint endpoint):
        cdef Span names = body[0]
        cdef const uint8_t* text
        cdef uint32_t count
        cdef bint valid = True
        answer = self.api_versions.get(api_version)
        if answer is None:
            return self.api_versions_unsupported
        if api_version >= self.apis[API_VERSIONS_KEY].flexible_from:
            # ClientSoftwareName, ClientSoftwareVersion: compact strings.
            for _ in range(2):
                if span_uvarint(body, &count) < 0 or count == 0 or span_bytes(body, <Py_ssize_t>count - 1, &text) < 0:
                    return None
                valid = valid and is_software_name(text, <Py_ssize_t>count - 1)
            if span_skip_tags(body) < 0:
                return None
        if not valid:
            return self.invalid_client[api_version]
        if endpoint.software is None:
            endpoint.software = self.client_software(api_version, &names)
        return answer

    cdef tuple client_software(self, int16_t api_version, Span* body):
        cdef const uint8_t* text
        cdef uint32_t count
        cdef list parts = []
        if api_version < self.apis[API_VERSIONS_KEY].flexible_from:
            return None
        for _ in range(2):
            if span_uvarint(body, &count) < 0 or count == 0 or span_bytes(body, <Py_ssize_t>count - 1, &text) < 0:
                return None
            if count > SOFTWARE_BYTES_MAX or not is_software_name(text, <Py_ssize_t>count - 1):
                return None
            parts.append(PyBytes_FromStringAndSize(<const char*>text, <Py_ssize_t>count - 1))
        found = self.software.get(tuple(parts))
        if found is None:
            if len(self.software) >= SOFTWARE_MAX:
                self.software.clear()       # connections keep theirs
            found = self.software[tuple(parts)] = tuple([(<bytes>part).decode("ascii") for part in parts])
        return found

    cdef Api* api(self, int16_t api_key) noexcept:
        """The api of the key; NULL when it is not served."""
        if api_key < 0 or api_key >= API_KEYS or not self.apis[api_key].served:
            return NULL
        return &self.apis[api_key]

    cdef int wake(self, Endpoint endpoint) except -1:
        if endpoint.woken:
            return 0
        endpoint.woken = True
        self.woken.append(endpoint)
        if not self.turn_due:
            self.turn_due = True
            self.call_soon(self.run_turn)
        return 0

    def run_turn(self) -> None:
        """Run every connection that was woken. The loop calls it."""
        cdef list woken = self.woken
        cdef int64_t end_ns = self.times.read_clock() + self.slices.iteration_ns
        cdef Py_ssize_t place
        cdef Endpoint endpoint
        self.turn_due = False
        self.woken = []
        for place in range(len(woken)):
            if self.times.now_ns > end_ns:
                # The loop serves others first.
                self.woken = woken[place:] + self.woken
                if not self.turn_due:
                    self.turn_due = True
                    self.call_soon(self.run_turn)
                break
            endpoint = <Endpoint>woken[place]
            endpoint.woken = False
            try:
                endpoint.take_turn()
            except BaseException as cause:
                self.fail(cause)
                endpoint.abort("failure")

    def sweep(self, int64_t now_ms) -> None:
        """Enforce every limit that depends on time; `now_ms` never goes back. Call it a few times per second at most:
        that is the precision of the time-outs."""
        cdef Endpoint endpoint
        self.now_ms = now_ms
        for endpoint in list(self.connections):
            endpoint.sweep(now_ms)

    def drain(self) -> None:
        """End every connection after the replies that it awaits."""
        cdef Endpoint endpoint
        for endpoint in list(self.connections):
            endpoint.drain()

    def abort(self, str reason not None) -> None:
        """Close every connection at once."""
        cdef Endpoint endpoint
        for endpoint in list(self.connections):
            endpoint.abort(reason)

    def requests(self) -> dict[int, int]:
        """Requests by api key since the start, malformed bodies included."""
        cdef int key
        return {key: self.apis[key].requests for key in range(API_KEYS) if self.apis[key].requests > 0}

    cdef Py_ssize_t count_answer(self, Reply reply) except -1:
        cdef Py_ssize_t size, total = 0, copied = 0
        for part in reply.parts:
            size = len(part)
            total += size
            if type(part) is not Slice:
                copied += size
        if copied > self.answer_bytes_max:
            reply.state = REPLY_REFUSED
            reply.parts = None
            reply.reason = "answer_size"
        elif copied >= ANSWER_COUNTED_MIN:
            reply.held_bytes = copied
            self.memory.adjust(copied)
        return total

    cdef int count_closed(self, str reason) except -1:
        self.closed[reason] = self.closed.get(reason, 0) + 1
        return 0

    def fail_later(self, cause: BaseException) -> None:
        """Report an internal error in resumed work."""
        self.fail(cause)

    cdef int fail(self, object cause) except -1:
        self.failed = True
        self.on_failure(cause)
        return 0
