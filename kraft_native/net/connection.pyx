"""One client's connection: requests in, replies out in their order, within limits.

It is an asyncio BufferedProtocol. Each read is cut into frames in place. Each frame's header is parsed, and its body
goes to a compiled handler or to the Python side. Every request has a `Reply` in the connection's row; finished replies
leave from the head of the row, all of them in one write.

A connection stalls, that is, processes no further request, while
- `requests_in_progress_max` requests are in the row,
- a request is in progress that must be answered first (all that the Python side serves: Kafka's order),
- the peer leaves replies unread (their total over all peers is bounded),
- a large frame waits for memory,
- its client exceeded a quota, for the time that the reply states (KIP-219),
- its slice of the loop's time is used up (`request/slices.pyx`).

Bytes that arrive during a stall are kept, and reading pauses. `channel.pyx` and `frames.pyx` have the time-outs.

A write goes straight to a plain socket. The transport gets what the socket does not accept; it then owns it and holds
references to the memory it sends from. If that includes pages of files, the transport gets only enough to report when
there is room again; then the rest is sent directly. With TLS everything goes through the transport.
"""

from libc.errno cimport EAGAIN, EIO
from libc.string cimport memcmp

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

cimport cython

from kraft_native.base.span cimport span_left, span_of
from kraft_native.net.channel cimport API_VERSIONS_KEY, Api, RequestChannel
from kraft_native.net.frames cimport ReadWindow
from kraft_native.net.outgoing cimport Outgoing, take_front
from kraft_native.net.restraints cimport (
    RAW_VERSION, SASL_AUTHENTICATE_KEY, STALL_ENDED, STALL_MEMORY, STALL_REQUEST, STALL_ROW, STALL_SLICE,
    STALL_WRITE, RestrainedEndpoint,
)
from kraft_native.request.header cimport request_header_begin, request_header_rest
from kraft_native.request.reply cimport (
    REPLY_ANSWERED, REPLY_OPEN, REPLY_REFUSED, ReplySink, ReplyWaiter, RequestHandler, make_reply_header,
)
from kraft_native.request.times cimport Moments

from kraft_native.base.errors import ProtocolError
from kraft_native.net.outgoing import plain_descriptor


@cython.final
cdef class Connection(RestrainedEndpoint):
    """An asyncio BufferedProtocol; pass a function that creates one to `loop.create_server`. Loop thread only."""

    def __init__(self, RequestChannel channel not None, listener: Listener):
        RestrainedEndpoint.__init__(self, channel)
        self.listener = listener
        self.times = channel.times
        self.peer_host = ""
        self.fd = -1
        self.frame_since_ms = self.blocked_since_ms = -1

    # --- what the transport calls

    def connection_made(self, transport: Transport) -> None:
        self.transport = transport
        self.reading = True
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple) and len(peer) >= 2:
            self.peer_host, self.peer_port = peer[0].removeprefix("::ffff:"), peer[1]    # IPv4 on an IPv6 socket
        self.channel.connections[self] = None
        self.channel.connections_opened += 1
        refused = self.listener.admit(self)
        if refused is not None:
            self.abort(refused)
            return
        # The transport reports every byte that it holds back; the connection decides what that means.
        transport.set_write_buffer_limits(high=0)
        self.fd = plain_descriptor(transport)

    def connection_lost(self, exception: Exception | None) -> None:
        self.closing = True
        self.release()
        self.transport = None
        self.reason = self.reason or "peer"
        self.channel.connections.pop(self, None)
        self.channel.count_closed(self.reason)
        self.listener.left(self)

    def get_buffer(self, Py_ssize_t size_hint) -> ReadWindow:
        cdef ReadWindow landing = self.channel.memory.landing
        self.offered_ns = self.times.read_clock()
        self.frames.offer(&landing.data, &landing.size)
        return landing

    def buffer_updated(self, Py_ssize_t count) -> None:
        self.channel.bytes_in += count
        self.arrived_ns = self.times.read_clock()
        self.active = True
        if self.closing:
            return
        self.frames.arrived(count)
        if self.channel.slices.is_spent():
            self.defer(True)
        self.work()
        self.channel.slices.spend(self.times.now_ns - self.offered_ns)

    def eof_received(self) -> bool:
        """End the connection: as in Kafka, a peer that stops sending awaits no reply either."""
        self.closing = True
        self.release()
        return False

    def pause_writing(self) -> None:
        self.stall |= STALL_WRITE
        self.blocked_since_ms = -1

    def resume_writing(self) -> None:
        self.channel.memory.hold_unread(self, None, False)
        self.stall &= ~STALL_WRITE
        self.blocked_since_ms = -1
        self.active = True
        self.channel.wake(self)

    # --- requests

    cdef int work(self) except -1:
        """Continue the current round: process frames and send finished replies, until no frame is left or the
        connection stalls. An exception here is an internal error: it is reported, and the connection closed."""
        self.dispatching = True
        self.slice_end_ns = self.times.now_ns + self.channel.slices.turn_ns
        try:
            while True:
                self.look()
                self.flush()
                if self.closing or self.stall != 0 or not self.unseen:
                    break
                self.frames.look_again()
            self.update_reading()
        except BaseException as cause:
            self.dispatching = False
            self.channel.outgoing.clear()
            self.abort("failure")
            self.channel.fail(cause)
        self.dispatching = False
        if self.closing:
            self.frames.discard(self)
        return 0

    cdef int look(self) except -1:
        """Dispatch the round's frames and end the round."""
        cdef const uint8_t* frame = NULL
        cdef Py_ssize_t size = 0
        cdef int found = 1
        while self.stall == 0 and not self.closing:
            found = self.frames.next(&frame, &size)
            if found <= 0:
                break
            self.frame_since_ms = -1
            self.dispatch(frame, size)
            if self.ready_bytes > READY_BYTES_MAX or self.channel.outgoing.is_full():
                self.flush()
            if self.times.now_ns >= self.slice_end_ns and self.stall == 0 and self.frames.has_whole():
                self.defer(False)
        if found < 0:
            self.refuse("frame_size")
        self.unseen = found > 0 and self.frames.left() > 0
        if self.closing:
            return 0
        if self.stall & STALL_ENDED:
            self.unseen = False
            self.frames.discard(self)
        elif not self.frames.keep(self):
            self.stall |= STALL_MEMORY
            self.memory_queued = True
        elif self.unseen and self.frames.has_partial():
            # Stalled for another reason: only connections that can use it may exceed the memory limit.
            self.channel.memory.stand_aside(self)
        return 0

    cdef int defer(self, bint fresh) except -1:
        """Process no further request until the queue grants a slice."""
        self.stall |= STALL_SLICE
        return self.channel.slices.add(self, fresh)

    cdef int take_slice(self) except -1:
        self.stall &= ~STALL_SLICE
        if self.closing or self.stall != 0:
            return 0
        self.times.read_clock()
        if self.unseen:
            self.frames.look_again()
            return self.work()
        return self.update_reading()

    cdef bint has_one_request(self) except -1:
        return self.in_progress == 1 and not self.unseen and not (self.frames.known and self.frames.has_whole())

    cdef int dispatch(self, const uint8_t* frame, Py_ssize_t size) except -1:
        """Parse the frame's header, and route the request."""
        cdef Span span = span_of(frame, size)
        cdef RequestHeader header
        cdef Reply reply
        cdef Api* api
        if not self.is_authenticated:
            if self.is_raw:
                return self.dispatch_token(frame, size)
            if not self.may_send(frame, size):
                return self.refuse("session" if self.is_expired else "unauthenticated")
        if request_header_begin(&span, &header) < 0:
            return self.refuse("header")
        api = self.channel.api(header.api_key)
        if api == NULL:
            return self.refuse("api_key")
        if request_header_rest(&span, &header, header.api_version >= api.flexible_from) < 0:
            return self.refuse("header")
        api.requests += 1
        if header.api_key == API_VERSIONS_KEY and not self.passes_api_versions:
            return self.answer_api_versions(&header, &span)
        if header.api_version < api.first_version or header.api_version > api.last_version:
            return self.refuse("api_version")
        reply = self.new_reply(&header)
        try:
            self.hand_over(reply, span.p, span_left(&span))
        except ProtocolError:
            if reply.state != REPLY_OPEN:
                raise
            reply.refuse("malformed")
        self.worked_on(reply)
        if reply.alone and reply.state == REPLY_OPEN:
            self.barrier = reply
            self.stall |= STALL_REQUEST
        elif reply.state == REPLY_REFUSED:
            self.stall |= STALL_ENDED
        return 0

    cdef int hand_over(self, Reply reply, const uint8_t* body, Py_ssize_t body_bytes) except -1:
        """Call the handler of the api key, or else the Python side, in order as in Kafka. An answer computed while
        earlier requests wait would be outdated when it is sent."""
        cdef object handler = self.channel.handlers[reply.api_key]
        cdef bytes copied
        if handler is not None:
            (<RequestHandler>handler).handle(reply, body, body_bytes)
            if reply.held_bytes > 0 and reply.state == REPLY_OPEN:     # a copy of the body, until it is answered
                self.channel.memory.adjust(reply.held_bytes)
            return 0
        reply.alone = not self.channel.apis[reply.api_key].pipelined
        reply.held_bytes = body_bytes
        self.channel.memory.adjust(body_bytes)
        copied = PyBytes_FromStringAndSize(<const char*>body, body_bytes)
        if reply.alone and self.is_behind(reply):
            self.deferred = copied
        else:
            self.channel.on_request(reply, reply.api_key, reply.api_version, copied)
        return 0

    cdef int dispatch_token(self, const uint8_t* frame, Py_ssize_t size) except -1:
        """Hand over a frame that has no header."""
        cdef RequestHeader header
        cdef Reply reply
        header.api_key = SASL_AUTHENTICATE_KEY
        header.api_version = RAW_VERSION
        header.correlation_id = header.client_id_bytes = 0
        header.client_id = NULL
        reply = self.new_reply(&header)
        self.hand_over(reply, frame, size)
        self.worked_on(reply)
        if reply.state == REPLY_OPEN:
            self.barrier = reply
            self.stall |= STALL_REQUEST
        elif reply.state == REPLY_REFUSED:
            self.stall |= STALL_ENDED
        return 0

    cdef bint is_behind(self, Reply reply):
        """True while an earlier request is unanswered."""
        cdef Reply earlier = self.head
        while earlier is not reply:
            if earlier.state == REPLY_OPEN:
                return True
            earlier = earlier.after
        return False

    cdef int work_on_deferred(self) except -1:
        """Hand the barrier over, now that every earlier request is answered."""
        cdef Reply reply = self.barrier
        cdef bytes body = self.deferred
        self.deferred = None
        reply.at.begun_ns = self.times.now_ns
        reply.at.handed_ns = 0
        try:
            self.channel.on_request(reply, reply.api_key, reply.api_version, body)
        except ProtocolError:
            if reply.state != REPLY_OPEN:
                raise
            reply.refuse("malformed")
        self.worked_on(reply)
        if reply.state == REPLY_REFUSED:
            self.stall |= STALL_ENDED
        return self.flush()

    cdef int answer_api_versions(self, RequestHeader* header, Span* body) except -1:
        """Reply with response header version 0 whatever the request's version, so that clients of any age can read
        it."""
        cdef bytes answer = self.channel.api_versions_body(header.api_version, body, self)
        cdef Moments moments
        cdef Reply reply
        if answer is None:
            return self.refuse("malformed")
        if self.head is not None or self.channel.quotas is not None and self.channel.quotas.find is not None:
            reply = self.new_reply(header)
            if self.channel.quotas is not None:
                self.channel.quotas.charge_time(reply)
            reply.finish([make_reply_header(header.correlation_id, 0), answer])
            return self.worked_on(reply)
        self.channel.outgoing.put_body(header.correlation_id, answer)
        moments.api_key = API_VERSIONS_KEY
        moments.arrived_ns = self.arrived_ns
        moments.begun_ns = self.times.now_ns
        moments.handed_ns = moments.answered_ns = self.times.read_clock()
        self.channel.outgoing.note(&moments)
        return 0

    cdef Reply new_reply(self, RequestHeader* header):
        """Create a reply at the end of the row."""
        cdef Reply reply = Reply.__new__(Reply)
        cdef Py_ssize_t count = header.client_id_bytes
        reply.sink = self
        reply.api_key = header.api_key
        reply.api_version = header.api_version
        reply.correlation_id = header.correlation_id
        reply.at.api_key = header.api_key
        reply.at.arrived_ns = self.arrived_ns
        reply.at.begun_ns = self.times.now_ns
        if header.client_id != NULL:
            # Clients seldom change their name.
            if (self.client_id is None or PyBytes_GET_SIZE(self.client_id) != count
                    or memcmp(PyBytes_AS_STRING(self.client_id), header.client_id, <size_t>count) != 0):
                self.client_id = PyBytes_FromStringAndSize(<const char*>header.client_id, count)
            reply.client_id = self.client_id
        if self.tail is None:
            self.head = reply
        else:
            self.tail.after = reply
        self.tail = reply
        self.in_progress += 1
        self.channel.requests_in_progress += 1
        if self.in_progress >= self.channel.requests_in_progress_max:
            self.stall |= STALL_ROW
        return reply

    cdef int worked_on(self, Reply reply) except -1:
        """Account for a request whose handler returned: it is answered now, or will be later."""
        reply.at.handed_ns = self.times.read_clock()
        if reply.state != REPLY_OPEN:
            reply.at.answered_ns = reply.at.handed_ns
            if reply.state == REPLY_ANSWERED and reply.parts is None:
                self.channel.outgoing.note(&reply.at)      # accepted at once
        if reply.time_quota is not None:
            reply.count_time(reply.time_quota, reply.at.handed_ns, reply.at.handed_ns // 1_000_000)
        return 0

    cdef int refuse(self, str reason) except -1:
        """Close the connection after the earlier replies: the input cannot be answered."""
        cdef RequestHeader header
        header.api_key = header.api_version = -1
        header.correlation_id = header.client_id_bytes = 0
        header.client_id = NULL
        self.stall |= STALL_ENDED
        return self.new_reply(&header).refuse(reason)

    # --- replies

    cpdef int reply_finished(self, Reply reply) except -1:
        if reply.held_bytes > 0:
            self.channel.memory.adjust(-reply.held_bytes)
            reply.held_bytes = 0
        if reply.at.handed_ns != 0:
            reply.at.answered_ns = self.times.read_clock()
        if reply.throttle_ms > 0:
            self.delay(reply.throttle_ms)
        if reply.parts is not None:
            self.ready_bytes += self.channel.count_answer(reply)
        if reply is self.barrier:
            self.barrier = None
            self.stall &= ~STALL_REQUEST
        elif reply is not self.head:
            return 0
        if not self.dispatching:
            self.channel.wake(self)
        return 0

    cdef object keep_body(self, const uint8_t** body, Py_ssize_t size):
        cdef object kept = self.frames.detach(size)
        return ReplySink.keep_body(self, body, size) if kept is None else kept

    cdef bint take_at_once(self, Reply reply, const uint8_t* data, Py_ssize_t size) except -1:
        """Encode a reply directly into the next write: while requests are dispatched nothing else fills its buffer."""
        if (not self.dispatching or reply is not self.head or reply.at.handed_ns != 0
                or size > REPLY_AT_ONCE_BYTES_MAX):
            return False
        if reply.throttle_ms > 0:
            self.delay(reply.throttle_ms)
        self.channel.outgoing.put_copy(data, size)
        self.ready_bytes += size
        self.take_head()
        return True

    cdef int flush(self) except -1:
        """Send finished replies at the head of the row."""
        cdef Outgoing out = self.channel.outgoing
        cdef int64_t end_ns = self.times.now_ns + self.channel.slices.slice_ns
        cdef str refused = None
        self.ready_bytes = 0
        while not self.closing and not self.stall & STALL_WRITE:
            if self.unsent is not None:
                out.put_back(self.unsent)
                self.unsent = None
            while self.head is not None and self.head.state != REPLY_OPEN and not out.is_full():
                if self.head.state == REPLY_ANSWERED:
                    out.put_reply(self.head)
                elif self.head.state == REPLY_REFUSED:
                    refused = self.head.reason
                if refused is None:
                    out.note(&self.head.at)
                self.take_head()
                if refused is not None:
                    break
            if out.moment_count > 0 or out.total_bytes > 0:
                self.send()
            if refused is not None:
                return self.close_after_sent(refused)
            if self.unsent is None and (self.head is None or self.head.state == REPLY_OPEN):
                break
            if self.times.now_ns >= end_ns and not self.stall & STALL_WRITE:
                return self.channel.wake(self)         # the peer reads as fast as this: others get their slice
        if self.head is None and self.reason is not None and not self.stall & STALL_WRITE and not self.closing:
            return self.close_after_sent(self.reason)
        return 0

    cdef int take_head(self) except -1:
        cdef Reply reply = self.head
        self.head = reply.after
        if self.head is None:
            self.tail = None
        reply.after = reply.sink = None
        if reply.held_bytes > 0:
            self.channel.memory.adjust(-reply.held_bytes)
            reply.held_bytes = 0
        self.in_progress -= 1
        self.channel.requests_in_progress -= 1
        self.stall &= ~STALL_ROW
        return 0

    cdef int send(self) except -1:
        """Send what was gathered. It leaves, belongs to the transport, or waits as `unsent` until the transport reports
        room in the socket."""
        cdef Outgoing out = self.channel.outgoing
        cdef Py_ssize_t total = out.total_bytes, sent = 0
        cdef int64_t begin_ns = self.times.now_ns
        cdef list rest = None, unread = None
        self.active = True
        if self.fd >= 0 and total > 0:
            sent = out.send(self.fd)
            if sent < 0:
                if sent != -EAGAIN:
                    out.clear()
                    return self.abort("storage" if sent == -EIO else "peer")
                sent = 0
        self.channel.bytes_out += total
        if sent < total:
            rest = unread = out.rest(sent)
            if self.fd >= 0 and out.has_pages(sent):
                self.unsent = list(rest)
                rest = [take_front(self.unsent, NOTICE_BYTES_MAX)]
        self.times.left(out.moments, out.moment_count, begin_ns, self.times.read_clock())
        out.clear()
        if rest is not None:
            self.transport.writelines(rest)
            if self.stall & STALL_WRITE or self.transport.get_write_buffer_size() > 0:
                self.channel.memory.hold_unread(self, unread, self.fd >= 0)
        return 0

    # --- slices, limits, the end

    cdef int take_turn(self) except -1:
        cdef int64_t began_ns = self.times.read_clock()
        if self.closing:
            return 0
        if self.stall & STALL_MEMORY and not self.memory_queued:
            if self.stall != STALL_MEMORY:
                self.channel.memory.stand_aside(self)
            elif self.frames.grow(self):
                self.stall &= ~STALL_MEMORY
            else:
                self.memory_queued = True
        assert self.channel.outgoing.total_bytes == 0, "a turn inside a turn"
        self.dispatching = True
        try:
            self.flush()
            if self.deferred is not None and self.head is self.barrier and not self.closing:
                self.work_on_deferred()
        finally:
            self.dispatching = False
            self.channel.outgoing.clear()
        if self.closing:
            self.frames.discard(self)
        if self.closing or self.stall != 0:
            return 0
        if self.unseen and self.channel.slices.is_spent():
            return self.defer(False)
        self.take_slice()
        return self.channel.slices.spend(self.times.now_ns - began_ns)

    cdef int memory_available(self) except -1:
        self.memory_queued = False
        return self.channel.wake(self)

    cdef int update_reading(self) except -1:
        """Pause or resume reading. A stall that ends within one loop iteration should cost nothing. So reading pauses
        only when bytes arrive after the stall began, or when more has no room or no use."""
        if self.closing:
            return 0
        if self.stall == 0:
            if not self.reading:
                self.reading = True
                self.transport.resume_reading()
        elif self.reading and (self.stall & (STALL_MEMORY | STALL_ENDED) or self.unseen):
            self.reading = False
            self.transport.pause_reading()
        return 0

    cdef int sweep(self, int64_t now_ms) except -1:
        cdef int64_t allowed
        if self.active:
            self.active = False
            self.active_ms = now_ms
        if 0 <= self.until_ms < now_ms and not self.end_session():
            return self.abort("authentication_timeout")
        if self.stall & STALL_WRITE:
            left = self.transport.get_write_buffer_size() + sum(map(len, self.unsent or ()))
            if self.blocked_since_ms < 0:
                self.blocked_since_ms = now_ms
                self.blocked_bytes = left
            allowed = (self.channel.reply_timeout_ms
                       + (self.blocked_bytes - <int64_t>left) * 1000 // self.channel.rate_min_bytes_per_second)
            if now_ms - self.blocked_since_ms > allowed:
                return self.abort("slow_reader")
        elif self.stall == 0 and self.frames.has_partial():
            if self.frame_since_ms < 0:
                self.frame_since_ms = now_ms
            allowed = (self.channel.frame_timeout_ms
                       + self.frames.kept_bytes() * 1000 // self.channel.rate_min_bytes_per_second)
            if now_ms - self.frame_since_ms > allowed:
                return self.abort("frame_timeout")
        elif self.stall != 0:
            self.frame_since_ms = -1
        elif self.head is None and 0 <= self.channel.idle_timeout_ms < now_ms - self.active_ms:
            return self.abort("idle")
        return 0

    def close(self, str reason not None) -> None:
        """Close at once, without replies; `reason` is counted."""
        self.abort(reason)

    cdef int abort(self, str reason) except -1:
        if self.reason is None or not self.closing:
            self.reason = reason
        self.closing = True
        self.release()
        if self.transport is not None:
            self.transport.abort()
        return 0

    cdef int close_after_sent(self, str reason) except -1:
        """Close once everything is sent, as no requests are left. The sweep ends a peer that does not read."""
        self.reason = reason
        self.closing = True
        if self.unsent is not None:
            self.transport.writelines(self.unsent)
        self.release()
        self.transport.close()
        return 0

    cdef int release(self) except -1:
        """Release everything but the transport. Replies that finish later are dropped."""
        cdef Reply reply
        cdef ReplyWaiter waiter
        self.channel.memory.hold_unread(self, None, False)
        self.fd = -1
        self.unsent = self.barrier = self.deferred = None
        self.stall |= STALL_ENDED
        while self.head is not None:
            reply = self.head
            waiter = reply.waiter
            reply.waiter = None
            self.take_head()
            if waiter is not None:
                waiter.abandon()
        if not self.dispatching:
            # The frame being dispatched may lie in the kept bytes.
            self.frames.discard(self)
        self.channel.memory.forget(self)
        return 0
