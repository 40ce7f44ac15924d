"""TLS by OpenSSL itself."""

from libc.stdint cimport uint64_t

from kraft_native.net.openssl_api cimport SSL, SSL_CTX, kf_tls_bytes, kf_tls_outgoing
from kraft_native.net.tls_session cimport TlsContext, TlsMemory, TlsSession

cdef class OpenSslContext(TlsContext):
    cdef SSL_CTX* context
    cdef bint is_server
    cdef bint checks_name

    cdef int check(self, long result) except -1
    cdef int trust(self, bytes certificates, bytes file, bytes directory) except -1
    cdef int load(self, bytes certificates, bytes key, bytes password) except -1


cdef class OutgoingMemory:
    cdef kf_tls_outgoing bytes
    cdef uint64_t writer           # number of the session that the bytes are of; 0: none


cdef class OpenSslSession(TlsSession):
    cdef SSL* handle
    cdef uint64_t number           # unique in the process
    cdef OpenSslContext context
    cdef OutgoingMemory outgoing
    cdef kf_tls_bytes bytes
    cdef str server_name

    cdef int expect(self, str server_name, bint is_checked) except -1
    # Takes the shared memory, and empties OpenSSL's list of errors.
    cdef int enter(self) except -1
    # The error of a call that returned `result`, and as a side effect an empty list of errors.
    cdef object failure(self, int result)
