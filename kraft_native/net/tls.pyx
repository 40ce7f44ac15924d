"""TLS between a plain transport and a protocol.

A `TlsTransport` is a BufferedProtocol for the socket's transport, and the transport of the protocol that it serves. Its
`TlsSession` encrypts in memory; bytes go directly between the socket, the session and the protocol's buffer. Its owner
decides about a connection before the handshake, which is when most of the cost arises:

- `arrived(transport)` when a socket is connected; the owner may call `abort`.
- `hello(transport)` with a client's first record: the owner calls `begin` when it is this client's turn. A client that
  sends nothing, or a part of a record, costs no TLS session.
- `opened(transport)` after the handshake; it returns the protocol, which is connected at once.
- `failed(transport)` when the connection ends before that; `transport.error` has the reason.

Answers are encrypted in chunks, and only as fast as the socket accepts them. The protocol is paused while any byte is
unsent. So the memory of a slow reader is as limited as without TLS.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_FromStringAndSize

from kraft_native.net.outgoing cimport UNLOCK_BYTES_MIN
from kraft_native.net.tls_session cimport (
    SESSION_BROKEN, SESSION_ENDED, SESSION_MORE, SessionState, TlsMemory, TlsSession, open_session,
)

import ssl
from collections import deque

from kraft_native.net.outgoing import plain_descriptor

cdef extern from "<sys/socket.h>" nogil:
    Py_ssize_t socket_send "send"(int fd, const void* data, size_t count, int flags)
    enum:
        MSG_DONTWAIT
        MSG_NOSIGNAL

HANDSHAKE_RECORD = 0x16
"""First byte of every TLS connection."""


cdef Py_ssize_t send_bytes(int fd, const char* data, Py_ssize_t count) noexcept:
    """Send to a non-blocking socket: the byte count, or -1."""
    cdef Py_ssize_t sent
    if count < UNLOCK_BYTES_MIN:
        return socket_send(fd, data, <size_t>count, MSG_DONTWAIT | MSG_NOSIGNAL)
    with nogil:
        sent = socket_send(fd, data, <size_t>count, MSG_DONTWAIT | MSG_NOSIGNAL)
    return sent


cdef class TlsTransport:
    """See the module. Loop thread only. `call_soon`: the loop's. `memory`: the loop's, too. asyncio's own loop needs a
    subclass that is an asyncio.BufferedProtocol, too."""

    def __init__(self, owner: TlsOwner, TlsMemory memory not None, call_soon: Callable[[Callable[[], None]], Any], *,
                 bint is_server):
        self.owner = owner
        self.memory = memory
        self.call_soon = call_soon
        self.is_server = is_server
        self.peer_host = ""
        self.state = TLS_WAITING
        self.fd = -1

    def begin(self, context: SSLContext, str server_name=None) -> None:
        """Start the handshake. `server_name`: the host that a client wants. Where the context has a `compiled` one, the
        session is of that (see `open_session`)."""
        cdef bytearray first = self.first
        if self.state != TLS_WAITING:
            return
        self.context = context
        self.unsent = deque()
        self.session = open_session(context, self.memory, self.is_server, server_name, True)
        self.state = TLS_HANDSHAKE
        self.first = None
        self.plain.resume_reading()
        if first is None:
            self.shake()
        else:
            self.advance(PyByteArray_AS_STRING(first), len(first))

    cdef int advance(self, const char* data, Py_ssize_t count) except -1:
        """Continue with the peer's bytes. They are needed no more when this returns."""
        cdef TlsSession session = self.session
        session.feed(data, count)
        try:
            if self.state == TLS_HANDSHAKE:
                self.shake()
            elif self.state == TLS_OPEN:
                self.deliver()
        finally:
            session.settle()
        return 0

    cdef int shake(self) except -1:
        try:
            if not self.session.shake():
                return self.flush()
        except ssl.SSLError as error:
            self.flush()                  # the alert that names the reason to the peer
            return self.fail(error)
        self.state = TLS_OPEN
        self.flush()
        self.protocol = self.owner.opened(self)
        self.protocol.connection_made(self)
        return self.deliver()

    # --- what the socket's transport calls

    def connection_made(self, transport: Transport) -> None:
        self.plain = transport
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple) and len(peer) >= 2:
            self.peer_host, self.peer_port = peer[0].removeprefix("::ffff:"), peer[1]    # IPv4 on an IPv6 socket
        transport.set_write_buffer_limits(high=0)
        self.fd = plain_descriptor(transport)
        self.owner.arrived(self)

    def connection_lost(self, exception: Exception | None) -> None:
        self.state = TLS_CLOSED
        self.fd = -1
        if self.unsent is not None:
            self.unsent.clear()
            self.unsent_bytes = 0
        if self.error is None:
            self.error = exception
        if self.protocol is None:
            self.owner.failed(self)
        else:
            self.protocol.connection_lost(self.error)
        self.plain = self.protocol = self.owner = self.call_soon = None

    def get_buffer(self, Py_ssize_t size_hint) -> bytearray:
        return self.memory.window

    def buffer_updated(self, Py_ssize_t count) -> None:
        if self.state >= TLS_CLOSING:
            return
        if self.state == TLS_WAITING:
            self.read_first(count)
            return
        self.advance(PyByteArray_AS_STRING(self.memory.window), count)

    cdef int read_first(self, Py_ssize_t count) except -1:
        """Read until the first record is whole. One that claims too much is left to the library."""
        cdef Py_ssize_t size
        if self.first is None:
            self.first = bytearray()
        self.first += PyBytes_FromStringAndSize(PyByteArray_AS_STRING(self.memory.window), count)
        if self.first[0] != HANDSHAKE_RECORD:
            return self.fail(ssl.SSLError("the client does not speak TLS"))
        if self.greeted or len(self.first) < RECORD_HEADER_BYTES:
            return 0
        size = RECORD_HEADER_BYTES + (self.first[3] << 8 | self.first[4])
        if len(self.first) < size <= RECORD_BYTES_MAX:
            return 0
        self.greeted = True
        self.plain.pause_reading()
        self.owner.hello(self)
        return 0

    def eof_received(self) -> bool:
        """End the connection. Bytes that a protocol which is paused has not read are dropped, as without TLS."""
        if self.state == TLS_OPEN and self.protocol is not None:
            self.protocol.eof_received()
        return False

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False
        self.push()

    # --- bytes of the peer

    cdef int deliver(self) except -1:
        """Pass decrypted bytes to the protocol until it pauses or closes, or no whole record is left."""
        cdef TlsSession session = self.session
        cdef Py_buffer view
        cdef Py_ssize_t filled
        cdef SessionState found = SESSION_MORE
        if self.delivering:
            return 0
        self.delivering = True
        try:
            while self.state == TLS_OPEN and not self.paused and found == SESSION_MORE:
                PyObject_GetBuffer(self.protocol.get_buffer(-1), &view, PyBUF_WRITABLE)
                try:
                    filled = session.read(<char*>view.buf, view.len, &found)
                finally:
                    PyBuffer_Release(&view)
                if found == SESSION_BROKEN and self.error is None:
                    self.error = session.error     # the next write fails, too, with a reason that says less
                self.flush()               # an alert, or the answer to a change of keys
                if filled > 0:
                    self.protocol.buffer_updated(filled)
        finally:
            self.delivering = False
        if found == SESSION_BROKEN:
            return self.fail(session.error)
        if found == SESSION_ENDED and self.state == TLS_OPEN:
            self.protocol.eof_received()
            self.close()
        return 0

    def deliver_rest(self) -> None:
        """Pass on what arrived before the protocol paused. The loop calls it."""
        self.due = False
        self.deliver()

    # --- bytes for the peer

    cdef int push(self) except -1:
        """Encrypt and send until the socket accepts no more."""
        cdef TlsSession session = self.session
        while self.unsent_bytes > 0 and not self.full and TLS_OPEN <= self.state <= TLS_CLOSING:
            try:
                self.encrypt(session)
            except ssl.SSLError as error:
                # The peer has sent a broken record after those whose answers these are.
                session.discard()
                return self.fail(error)
            if self.unsent_bytes == 0 or session.encrypted_bytes() >= ENCRYPTED_AT_ONCE_MAX:
                self.flush()
        self.report()
        if self.state == TLS_CLOSING and self.unsent_bytes == 0 and not self.full:
            return self.finish()
        return 0

    cdef int encrypt(self, TlsSession session) except -1:
        """Encrypt the next part of the first piece."""
        cdef Py_buffer view
        cdef Py_ssize_t size
        PyObject_GetBuffer(self.unsent[0], &view, PyBUF_SIMPLE)
        try:
            size = min(view.len - self.unsent_at, <Py_ssize_t>ENCRYPTED_AT_ONCE_MAX)
            session.write(<const char*>view.buf + self.unsent_at, size)
            self.unsent_at += size
            self.unsent_bytes -= size
            if self.unsent_at == view.len:
                self.unsent.popleft()
                self.unsent_at = 0
        finally:
            PyBuffer_Release(&view)
        return 0

    cdef int flush(self) except -1:
        """Send what is encrypted. The socket's transport holds what does not leave."""
        cdef TlsSession session = self.session
        cdef const char* data = NULL
        cdef Py_ssize_t count, sent = 0
        cdef bytes rest = None
        if session.encrypted_bytes() == 0:
            return 0
        count = session.encrypted(&data)
        try:
            if self.plain is None:
                return 0
            if self.fd >= 0 and not self.full and self.plain.get_write_buffer_size() == 0:
                # The transport finds out what is wrong with the connection.
                sent = max(0, send_bytes(self.fd, data, count))
            if sent < count:
                rest = PyBytes_FromStringAndSize(data + sent, count - sent)
        finally:
            session.discard()              # other connections use the same memory next
        if rest is not None:
            self.plain.write(rest)         # calls `pause_writing`
            if self.plain.get_write_buffer_size() > HELD_BYTES_MAX:
                return self.fail(ssl.SSLError("the peer requests changes of keys and reads nothing"))
        return 0

    cdef int report(self) except -1:
        """Pause or resume the protocol's writing."""
        cdef bint left = self.unsent_bytes > 0 or self.full
        if self.protocol is None or left == self.reported:
            return 0
        self.reported = left
        if left:
            self.protocol.pause_writing()
        else:
            self.protocol.resume_writing()
        return 0

    # --- what the protocol calls

    def get_extra_info(self, str name not None, default: Any = None) -> Any:
        """Return `sslcontext` and `ssl_object`, or what the socket's transport has."""
        if name == "sslcontext":
            return self.context
        if name == "ssl_object":
            return self.session
        return default if self.plain is None else self.plain.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Change nothing: the protocol is paused while any byte is unsent."""

    def get_write_buffer_size(self) -> int:
        """Return the count of bytes that the socket has not accepted."""
        return self.unsent_bytes + (0 if self.plain is None else self.plain.get_write_buffer_size())

    def write(self, data: Buffer) -> None:
        self.writelines((data,))

    def writelines(self, pieces: Iterable[Buffer]) -> None:
        """Send these pieces, in their order; until then they are referenced. Nothing is sent after `close`."""
        if self.state != TLS_OPEN:
            return
        for piece in pieces:
            if len(piece) > 0:
                self.unsent.append(piece)
                self.unsent_bytes += len(piece)
        self.push()

    def set_protocol(self, protocol: object) -> None:
        """Serve another protocol from now on. `connection_made` is not called."""
        self.protocol = protocol

    def pause_reading(self) -> None:
        self.paused = True
        if self.plain is not None and self.state < TLS_CLOSED:
            self.plain.pause_reading()

    def resume_reading(self) -> None:
        self.paused = False
        if self.plain is None or self.state != TLS_OPEN:
            return
        self.plain.resume_reading()
        if not self.due and not self.delivering and self.session.has_input():
            self.due = True
            self.call_soon(self.deliver_rest)

    def is_closing(self) -> bool:
        return self.state >= TLS_CLOSING

    def close(self) -> None:
        """Close once everything is sent. A handshake is ended at once."""
        if self.state != TLS_OPEN:
            if self.state < TLS_OPEN:
                self.abort()
            return
        self.state = TLS_CLOSING
        if self.unsent_bytes == 0:
            self.finish()

    cdef int finish(self) except -1:
        self.session.end()
        self.flush()
        self.plain.close()
        return 0

    def abort(self) -> None:
        """Close at once."""
        if self.state < TLS_CLOSED:
            self.state = TLS_CLOSED
            if self.plain is not None:
                self.plain.abort()

    def refuse(self, error: BaseException) -> None:
        """Close at once, for this reason."""
        self.fail(error)

    cdef int fail(self, object error) except -1:
        if self.error is None:
            self.error = error
            # Its frames would hold this transport: a cycle, which waits for a garbage collection.
            error.__traceback__ = None
        self.abort()
        return 0
