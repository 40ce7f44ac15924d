"""TLS between a plain transport and a protocol.

A `TlsTransport` is a BufferedProtocol for the socket's transport, and the transport of the protocol that it serves. The
`ssl` module encrypts in memory; bytes go directly between its buffers, the socket and the protocol's buffer. Its owner
decides about a connection before the handshake, which is when most of the cost arises:

- `arrived(transport)` when a socket is connected; the owner may call `abort`.
- `hello(transport)` with a client's first record: the owner calls `begin` when it is this client's turn. A client that
  sends nothing, or a part of a record, costs no TLS session.
- `opened(transport)` after the handshake; it returns the protocol, which is connected at once.
- `failed(transport)` when the connection ends before that; `transport.error` has the reason.

Answers are encrypted in chunks, and only as fast as the socket accepts them. The protocol is paused while any byte is
unsent. So the memory of a slow reader is as limited as without TLS.
"""

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory

import ssl
from collections import deque

from kraft_native.net.outgoing import plain_descriptor

cdef extern from "<sys/socket.h>" nogil:
    Py_ssize_t socket_send "send"(int fd, const void* data, size_t count, int flags)
    enum:
        MSG_DONTWAIT
        MSG_NOSIGNAL

cdef extern from "Python.h":
    enum:
        PyBUF_READ
        PyBUF_WRITE

HANDSHAKE_RECORD = 0x16
"""First byte of every TLS connection."""


cdef class TlsTransport:
    """See the module. Loop thread only. `call_soon`: the loop's. `window`: memory that each read uses, which all
    transports of a loop may share. asyncio's own loop needs a subclass that is an asyncio.BufferedProtocol, too."""

    def __init__(self, owner: TlsOwner, bytearray window not None, call_soon: Callable[[Callable[[], None]], Any], *,
                 bint is_server):
        self.owner = owner
        self.window = window
        self.call_soon = call_soon
        self.is_server = is_server
        self.peer_host = ""
        self.state = TLS_WAITING
        self.fd = -1

    def begin(self, context: SSLContext, str server_name=None) -> None:
        """Start the handshake. `server_name`: the host that a client wants."""
        if self.state != TLS_WAITING:
            return
        self.context = context
        if self.incoming is None:
            self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.unsent = deque()
        self.session = context.wrap_bio(self.incoming, self.outgoing, server_side=self.is_server,
                                        server_hostname=server_name)
        self.state = TLS_HANDSHAKE
        self.plain.resume_reading()
        self.shake()

    cdef int shake(self) except -1:
        try:
            self.session.do_handshake()
        except ssl.SSLWantReadError:
            return self.flush()
        except (ssl.SSLError, ssl.CertificateError) as error:
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
        return self.window

    def buffer_updated(self, Py_ssize_t count) -> None:
        if self.state >= TLS_CLOSING:
            return
        if self.state == TLS_WAITING:
            self.read_first(count)
            return
        self.read_window(count)
        if self.state == TLS_HANDSHAKE:
            self.shake()
        elif self.state == TLS_OPEN:
            self.deliver()

    cdef int read_first(self, Py_ssize_t count) except -1:
        """Read until the first record is whole. One that claims too much is left to the library."""
        cdef Py_ssize_t size
        if self.incoming is None:
            self.incoming = ssl.MemoryBIO()
            self.head = b""
        self.read_window(count)
        if len(self.head) < RECORD_HEADER_BYTES:
            self.head += bytes(self.window[:min(count, RECORD_HEADER_BYTES - len(self.head))])
        if self.head[0] != HANDSHAKE_RECORD:
            return self.fail(ssl.SSLError("the client does not speak TLS"))
        if len(self.head) < RECORD_HEADER_BYTES:
            return 0
        size = RECORD_HEADER_BYTES + (self.head[3] << 8 | self.head[4])
        if self.incoming.pending < size <= RECORD_BYTES_MAX:
            return 0
        self.plain.pause_reading()
        self.owner.hello(self)
        return 0

    cdef int read_window(self, Py_ssize_t count) except -1:
        self.incoming.write(PyMemoryView_FromMemory(PyByteArray_AS_STRING(self.window), count, PyBUF_READ))
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

    cdef bint has_input(self) except -1:
        return self.incoming.pending > 0 or self.session.pending() > 0

    cdef int deliver(self) except -1:
        """Pass decrypted bytes to the protocol until it pauses or closes, or no whole record is left."""
        cdef Py_buffer view
        cdef Py_ssize_t filled, count
        cdef bint ended = False, starved = False
        cdef object broken = None
        if self.delivering:
            return 0
        self.delivering = True
        try:
            while self.state == TLS_OPEN and not self.paused and not starved and not ended and broken is None:
                PyObject_GetBuffer(self.protocol.get_buffer(-1), &view, PyBUF_WRITABLE)
                filled = 0
                try:
                    while filled < view.len and not ended:
                        if not self.has_input():
                            starved = True
                            break
                        count = self.session.read(view.len - filled, PyMemoryView_FromMemory(
                            <char*>view.buf + filled, view.len - filled, PyBUF_WRITE))
                        filled += count
                        ended = count == 0
                except ssl.SSLWantReadError:
                    starved = True
                except ssl.SSLError as error:
                    broken = error
                    if self.error is None:
                        self.error = error     # the next write fails, too, with a reason that says less
                finally:
                    PyBuffer_Release(&view)
                if filled > 0:
                    self.protocol.buffer_updated(filled)
        finally:
            self.delivering = False
        if self.state == TLS_OPEN and self.outgoing.pending > 0:
            self.flush()                   # an alert, or the answer to a change of keys
        if broken is not None:
            return self.fail(broken)
        if ended and self.state == TLS_OPEN:
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
        cdef object piece
        cdef Py_ssize_t size
        while self.unsent_bytes > 0 and not self.full and TLS_OPEN <= self.state <= TLS_CLOSING:
            piece = self.unsent[0]
            size = len(piece)
            if size <= ENCRYPTED_AT_ONCE_MAX:
                self.unsent.popleft()
            else:
                piece = memoryview(piece)
                self.unsent[0] = piece[ENCRYPTED_AT_ONCE_MAX:]
                piece = piece[:ENCRYPTED_AT_ONCE_MAX]
                size = ENCRYPTED_AT_ONCE_MAX
            self.unsent_bytes -= size
            try:
                self.session.write(piece)
            except ssl.SSLError as error:
                # The peer has sent a broken record after those whose answers these are.
                return self.fail(error)
            if self.outgoing.pending >= ENCRYPTED_AT_ONCE_MAX or self.unsent_bytes == 0:
                self.flush()
        self.report()
        if self.state == TLS_CLOSING and self.unsent_bytes == 0 and not self.full:
            return self.finish()
        return 0

    cdef int flush(self) except -1:
        """Send what is encrypted. The socket's transport holds what does not leave."""
        cdef bytes data
        cdef Py_ssize_t sent = 0
        if self.plain is None or self.outgoing.pending == 0:
            return 0
        data = self.outgoing.read()
        if self.fd >= 0 and not self.full and self.plain.get_write_buffer_size() == 0:
            # The transport finds out what is wrong with the connection.
            sent = max(0, socket_send(self.fd, PyBytes_AS_STRING(data), <size_t>PyBytes_GET_SIZE(data),
                                      MSG_DONTWAIT | MSG_NOSIGNAL))
        if sent < PyBytes_GET_SIZE(data):
            self.plain.write(memoryview(data)[sent:] if sent > 0 else data)     # calls `pause_writing`
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
        if not self.due and not self.delivering and self.has_input():
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
        try:
            self.session.unwrap()
        except ssl.SSLError:
            pass                           # the peer's half of the end is not awaited
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
        self.abort()
        return 0
