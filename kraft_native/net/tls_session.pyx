"""TLS of one connection, whichever library does it.

`MemorySession` is the `ssl` module of Python, between memories. `net/openssl.pyx` is OpenSSL itself, where its headers
were present at the build. Both have the same settings, results and errors: `ssl.SSLError` with the library's reason.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory

import ssl

cdef extern from "Python.h":
    enum:
        PyBUF_READ
        PyBUF_WRITE

cdef enum:
    EXCHANGES_MAX = 8              # of a handshake: a few more than any needs


cdef class TlsMemory:
    def __init__(self, Py_ssize_t window_bytes):
        self.window = bytearray(window_bytes)


cdef class TlsSession:
    """Base of sessions. Not used by itself."""

    cdef int feed(self, const char* data, Py_ssize_t count) except -1:
        raise AssertionError(f"{type(self).__name__} does not define this")

    cdef int settle(self) except -1:
        return 0

    cdef bint has_input(self) except -1:
        raise AssertionError(f"{type(self).__name__} does not define this")

    cdef bint shake(self) except -1:
        raise AssertionError(f"{type(self).__name__} does not define this")

    cdef Py_ssize_t read(self, char* to, Py_ssize_t count, SessionState* state) except -1:
        raise AssertionError(f"{type(self).__name__} does not define this")

    cdef int write(self, const char* data, Py_ssize_t count) except -1:
        raise AssertionError(f"{type(self).__name__} does not define this")

    cdef int end(self) except -1:
        raise AssertionError(f"{type(self).__name__} does not define this")

    cdef Py_ssize_t encrypted_bytes(self) except -1:
        raise AssertionError(f"{type(self).__name__} does not define this")

    cdef Py_ssize_t encrypted(self, const char** data) except -1:
        raise AssertionError(f"{type(self).__name__} does not define this")

    cdef int discard(self) except -1:
        raise AssertionError(f"{type(self).__name__} does not define this")

    def library(self) -> str:
        """Return the name of what encrypts: openssl or ssl."""
        raise AssertionError(f"{type(self).__name__} does not define this")

    def version(self) -> str | None:
        """Return the version of TLS, as TLSv1.3; None before it is negotiated."""
        raise AssertionError(f"{type(self).__name__} does not define this")

    def cipher(self) -> tuple[str, str, int] | None:
        """Return the cipher suite, the version of TLS that it came with, and the bits of its key; None before it is
        negotiated."""
        raise AssertionError(f"{type(self).__name__} does not define this")

    def peer_certificate(self) -> bytes | None:
        """Return the peer's certificate (DER); None when it has shown none."""
        raise AssertionError(f"{type(self).__name__} does not define this")


cdef class TlsContext:
    """Base of settings. Not used by itself."""

    cdef TlsSession open(self, TlsMemory memory, str server_name, bint checks_name):
        raise AssertionError(f"{type(self).__name__} does not define this")


cdef class MemorySession(TlsSession):
    """A session of the `ssl` module. Bytes are copied into its memories and out of them."""
    cdef object session
    cdef object incoming
    cdef object outgoing
    cdef bytes taken               # what `encrypted` returned

    def __init__(self, context: SSLContext, bint is_server, str server_name, bint checks_name):
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        was_checked = context.check_hostname
        if not checks_name and was_checked:
            context.check_hostname = False     # read when the session is created, and at no other time
        try:
            self.session = context.wrap_bio(self.incoming, self.outgoing, server_side=is_server,
                                            server_hostname=server_name)
        finally:
            if context.check_hostname is not was_checked:
                context.check_hostname = was_checked

    cdef int feed(self, const char* data, Py_ssize_t count) except -1:
        self.incoming.write(PyMemoryView_FromMemory(<char*>data, count, PyBUF_READ))
        return 0

    cdef bint has_input(self) except -1:
        return self.incoming.pending > 0 or self.session.pending() > 0

    cdef bint shake(self) except -1:
        try:
            self.session.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    cdef Py_ssize_t read(self, char* to, Py_ssize_t count, SessionState* state) except -1:
        cdef Py_ssize_t filled = 0, found
        state[0] = SESSION_MORE
        try:
            while filled < count:
                if not self.has_input():
                    state[0] = SESSION_STARVED
                    break
                found = self.session.read(count - filled,
                                          PyMemoryView_FromMemory(to + filled, count - filled, PyBUF_WRITE))
                if found == 0:
                    state[0] = SESSION_ENDED
                    break
                filled += found
        except ssl.SSLWantReadError:
            state[0] = SESSION_STARVED
        except ssl.SSLError as error:
            self.error = error.with_traceback(None)
            state[0] = SESSION_BROKEN
        return filled

    cdef int write(self, const char* data, Py_ssize_t count) except -1:
        self.session.write(PyMemoryView_FromMemory(<char*>data, count, PyBUF_READ))
        return 0

    cdef int end(self) except -1:
        try:
            self.session.unwrap()
        except ssl.SSLError:
            pass                           # the peer's half of the end is not awaited
        return 0

    cdef Py_ssize_t encrypted_bytes(self) except -1:
        return self.outgoing.pending

    cdef Py_ssize_t encrypted(self, const char** data) except -1:
        self.taken = self.outgoing.read()
        data[0] = PyBytes_AS_STRING(self.taken)
        return PyBytes_GET_SIZE(self.taken)

    cdef int discard(self) except -1:
        self.taken = None
        return 0

    def library(self) -> str:
        return "ssl"

    def version(self) -> str | None:
        return self.session.version()

    def cipher(self) -> tuple[str, str, int] | None:
        return self.session.cipher()

    def peer_certificate(self) -> bytes | None:
        return self.session.getpeercert(binary_form=True)


cdef TlsSession open_session(object context, TlsMemory memory, bint is_server, str server_name, bint checks_name):
    cdef object compiled = getattr(context, "compiled", None)
    if compiled is None:
        return MemorySession(context, is_server, server_name, checks_name)
    return (<TlsContext?>compiled).open(memory, server_name, checks_name)


def shake_in_memory(server: SSLContext, client: SSLContext, str server_name=None) -> tuple[TlsSession, TlsSession]:
    """Shake hands in memory, as nodes with both contexts would. Return the sessions of both sides, the server's first.
    Raises `ssl.SSLError`. Without a name of the server none is checked."""
    cdef list sides = [open_session(client, TlsMemory(0), False, server_name, server_name is not None),
                       open_session(server, TlsMemory(0), True, None, False)]
    cdef list open_sides = list(sides)
    cdef TlsSession side, other
    cdef const char* data
    cdef Py_ssize_t count
    cdef int i
    for _ in range(EXCHANGES_MAX):
        for i in range(2):
            side, other = sides[i], sides[1 - i]
            if side not in open_sides:
                continue
            if side.shake():
                open_sides.remove(side)
            if side.encrypted_bytes() > 0:
                count = side.encrypted(&data)
                other.feed(data, count)
                other.settle()
                side.discard()
        if not open_sides:
            return sides[1], sides[0]
    raise ssl.SSLError("the handshake does not end")
