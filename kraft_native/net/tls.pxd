"""TLS between a plain transport and a protocol."""

from kraft_native.net.tls_session cimport TlsMemory, TlsSession

cdef enum:
    ENCRYPTED_AT_ONCE_MAX = 128 * 1024     # then they are sent, and more only if the socket accepts them
    HELD_BYTES_MAX = 1024 * 1024   # encrypted and not accepted by the socket: only changes of keys make so many

    RECORD_HEADER_BYTES = 5
    RECORD_BYTES_MAX = RECORD_HEADER_BYTES + 16 * 1024 + 256

cdef enum:
    TLS_WAITING = 0                # for the peer's first record, or for `begin`
    TLS_HANDSHAKE = 1
    TLS_OPEN = 2
    TLS_CLOSING = 3                # what was written is sent, nothing is read
    TLS_CLOSED = 4


cdef class TlsTransport:
    # type: TlsOwner
    cdef object owner
    cdef object call_soon
    cdef TlsMemory memory
    cdef bint is_server
    cdef readonly object plain  # type: Transport | None  # the socket's transport
    cdef readonly TlsSession session  # type: TlsSession | None  # None before `begin`
    cdef readonly object error  # type: BaseException | None  # why it failed
    cdef readonly str peer_host    # empty before the connection is made
    cdef readonly int peer_port
    cdef object context
    cdef bytearray first           # bytes of the peer before `begin`; None: none
    cdef bint greeted              # the owner knows that the first record is whole
    cdef object protocol           # None until the handshake is over
    cdef int state
    cdef int fd                    # of the plain socket; -1: only through its transport
    cdef bint paused               # the protocol wants no bytes
    cdef bint delivering
    cdef bint due                  # delivery is scheduled
    cdef bint full                 # the socket accepts nothing
    cdef bint reported             # the protocol knows that bytes are unsent
    cdef object unsent             # pieces that are not encrypted
    cdef Py_ssize_t unsent_at      # in the first of them: those before are encrypted
    cdef Py_ssize_t unsent_bytes

    cdef int read_first(self, Py_ssize_t count) except -1
    cdef int advance(self, const char* data, Py_ssize_t count) except -1
    cdef int shake(self) except -1
    cdef int deliver(self) except -1
    cdef int push(self) except -1
    cdef int encrypt(self, TlsSession session) except -1
    cdef int flush(self) except -1
    cdef int report(self) except -1
    cdef int finish(self) except -1
    cdef int fail(self, object error) except -1
