"""TLS of one connection, whichever library does it."""

cdef enum SessionState:
    SESSION_MORE = 0               # there may be more to read
    SESSION_STARVED = 1            # the next record is not complete
    SESSION_ENDED = 2              # the peer sends nothing more
    SESSION_BROKEN = 3             # `error` has the reason


cdef class TlsMemory:
    """Memory that the encrypted connections of one loop share. Loop thread only."""
    cdef readonly bytearray window  # what each read of a socket fills
    cdef object outgoing           # of a library's own: encrypted bytes that leave next


cdef class TlsSession:
    cdef readonly object error  # type: SSLError | None  # why reading failed

    # Lends encrypted bytes of the peer, until `settle`, which keeps what is left of them.
    cdef int feed(self, const char* data, Py_ssize_t count) except -1
    cdef int settle(self) except -1
    # Whether the peer's bytes are here, as a whole record or not.
    cdef bint has_input(self) except -1
    # True when the handshake is over; False: more bytes of the peer are needed. SSLError.
    cdef bint shake(self) except -1
    # Decrypts up to `count` bytes, and says why there are not more.
    cdef Py_ssize_t read(self, char* to, Py_ssize_t count, SessionState* state) except -1
    # Encrypts all of it. SSLError.
    cdef int write(self, const char* data, Py_ssize_t count) except -1
    # Announces the end to the peer. What the library has to say about that is of no interest.
    cdef int end(self) except -1
    # Count of encrypted bytes for the peer.
    cdef Py_ssize_t encrypted_bytes(self) except -1
    # All of them: how many, and where until `discard`, which is the next call. They are sent before another session of
    # the loop is used.
    cdef Py_ssize_t encrypted(self, const char** data) except -1
    cdef int discard(self) except -1


cdef class TlsContext:
    """Settings of sessions, as a compiled library has them."""
    cdef TlsSession open(self, TlsMemory memory, str server_name, bint checks_name)


# A session of an `ssl.SSLContext`: by its attribute `compiled`, a TlsContext, where it has one. `checks_name`: a client
# whose settings demand it checks the server's name.
cdef TlsSession open_session(object context, TlsMemory memory, bint is_server, str server_name, bint checks_name)
