"""TLS by OpenSSL itself, where its headers were present at the build: `setup.py` omits this module otherwise.

A session reads the peer's bytes where the socket's read has put them, and decrypts into the protocol's buffer. It
encrypts from where a reply lies into one buffer of the loop, which is sent at once (`_c/net/tls_bytes.h`). Results and
errors are those of the `ssl` module: `ssl.SSLError` with `library` and `reason`.

A session has no buffers of its own while nothing is under way (SSL_MODE_RELEASE_BUFFERS). The interpreter lock is
released for handshakes and for large parts.
"""

from libc.limits cimport INT_MAX
from libc.stdint cimport uint64_t
from libc.stdlib cimport free

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from kraft_native.net.openssl_api cimport (
    BIO, BIO_METHOD, BIO_free, BIO_new_mem_buf, ERR_GET_LIB, ERR_GET_REASON, ERR_LIB_PEM, ERR_LIB_SSL, ERR_LIB_X509,
    ERR_PACK, ERR_clear_error, ERR_lib_error_string, ERR_peek_last_error, ERR_reason_error_string, EVP_PKEY,
    EVP_PKEY_free, KF_OPTIONS, KF_PEER_CERTIFICATE, OPENSSL_VERSION, OPENSSL_VERSION_NUMBER, OPENSSL_free,
    OpenSSL_version, OpenSSL_version_num, PEM_R_NO_START_LINE, PEM_read_bio_PrivateKey, PEM_read_bio_X509, SSL,
    SSL_CIPHER, SSL_CIPHER_get_bits, SSL_CIPHER_get_name, SSL_CIPHER_get_version, SSL_CTX_add1_chain_cert,
    SSL_CTX_check_private_key, SSL_CTX_free, SSL_CTX_get0_param, SSL_CTX_get_cert_store,
    SSL_CTX_load_verify_locations, SSL_CTX_new, SSL_CTX_set_cipher_list, SSL_CTX_set_max_proto_version,
    SSL_CTX_set_min_proto_version, SSL_CTX_set_mode, SSL_CTX_set_options, SSL_CTX_set_security_level,
    SSL_CTX_set_session_id_context, SSL_CTX_set_verify, SSL_CTX_use_PrivateKey, SSL_CTX_use_certificate,
    SSL_ERROR_SSL, SSL_ERROR_WANT_READ, SSL_ERROR_ZERO_RETURN, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER,
    SSL_MODE_RELEASE_BUFFERS, SSL_OP_CIPHER_SERVER_PREFERENCE, SSL_R_CERTIFICATE_VERIFY_FAILED,
    SSL_VERIFY_FAIL_IF_NO_PEER_CERT, SSL_VERIFY_NONE, SSL_VERIFY_PEER, SSL_do_handshake, SSL_free, SSL_get0_param,
    SSL_get_current_cipher, SSL_get_error, SSL_get_verify_result, SSL_get_version, SSL_new, SSL_pending, SSL_read_ex,
    SSL_set_accept_state, SSL_set_bio, SSL_set_connect_state, SSL_set_tlsext_host_name, SSL_shutdown, SSL_write_ex,
    TLS_client_method, TLS_server_method,
    X509, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, X509_STORE, X509_STORE_add_cert, X509_VERIFY_PARAM,
    X509_VERIFY_PARAM_set1_host, X509_VERIFY_PARAM_set1_ip_asc, X509_VERIFY_PARAM_set_flags,
    X509_VERIFY_PARAM_set_hostflags, X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH,
    X509_V_FLAG_PARTIAL_CHAIN, X509_V_FLAG_TRUSTED_FIRST, X509_free, X509_verify_cert_error_string, i2d_X509,
    kf_tls_bytes_bio, kf_tls_bytes_method, kf_tls_forget, kf_tls_keep, kf_tls_unread,
)
from kraft_native.net.tls_session cimport (
    SESSION_BROKEN, SESSION_ENDED, SESSION_MORE, SESSION_STARVED, SessionState,
)

import ssl
from ipaddress import ip_address

cdef enum:
    UNLOCK_BYTES_MIN = 64 * 1024   # from here on the interpreter lock is released while OpenSSL encrypts or decrypts
    OUTGOING_KEPT_MAX = 512 * 1024  # a buffer that grew past this is not kept

cdef bytes SESSIONS_OF = b"kraft"
cdef uint64_t session_count = 0
cdef BIO_METHOD* METHOD = kf_tls_bytes_method()

if METHOD == NULL:
    raise MemoryError("OpenSSL has no memory for a kind of BIO")
if OpenSSL_version_num() >> 28 != OPENSSL_VERSION_NUMBER >> 28:
    raise ImportError(f"{OpenSSL_version(OPENSSL_VERSION).decode()} is loaded, and the module was compiled for "
                      f"another major release: {OPENSSL_VERSION_NUMBER:#x}")


def library_version() -> str:
    """Return the library's own name of its version."""
    return OpenSSL_version(OPENSSL_VERSION).decode()


def reason_name(int library, int reason) -> str | None:
    """Return the name of an error's reason, as the `ssl` module has it; None for one that is unknown."""
    return name_of_reason(ERR_PACK(library, 0, reason))


cdef str name_of_reason(unsigned long code):
    """The texts are the names, in small letters. From 3.2 on, one text has a slash where its name has a version."""
    cdef const char* text = ERR_reason_error_string(code)
    if text == NULL:
        return None
    return text.decode("ascii", "replace").upper().replace("SSL/TLS ALERT", "SSLV3 ALERT").replace(" ", "_").replace(
        "-", "_")


cdef object error_of(unsigned long code, str verify_message=None, long verify_code=0):
    """An error for the library's code, like that of the `ssl` module. Empties the list of errors."""
    cdef const char* text = ERR_reason_error_string(code) if code != 0 else NULL
    cdef const char* routines = ERR_lib_error_string(code) if code != 0 else NULL
    cdef str reason = name_of_reason(code) if code != 0 else None
    cdef str library = None
    cdef str shown
    ERR_clear_error()
    if ERR_GET_LIB(code) == ERR_LIB_SSL:
        library = "SSL"
    elif ERR_GET_LIB(code) == ERR_LIB_X509:
        library = "X509"
    elif routines != NULL:
        library = routines.decode("ascii", "replace").removesuffix(" routines").upper()
    shown = text.decode("ascii", "replace") if text != NULL else f"an error without a text, code {code:#x}"
    if verify_message is not None:
        shown = f"{shown}: {verify_message}"
    if reason is not None:
        shown = f"[{library}: {reason}] {shown}"
    error = (ssl.SSLError if verify_message is None else ssl.SSLCertVerificationError)(SSL_ERROR_SSL, shown)
    error.library = library
    error.reason = reason
    if verify_message is not None:
        error.verify_code = verify_code
        error.verify_message = verify_message
    return error


cdef int give_password(char* to, int room, int for_writing, void* user) noexcept nogil:
    """Copy the password, a string that ends with 0. OpenSSL never prompts for one. -1: too long."""
    cdef const char* password = <const char*>user
    cdef int count = 0
    while password[count] != 0:
        if count == room:
            return -1
        to[count] = password[count]
        count += 1
    return count


cdef class TextBio:
    """A BIO over a text that it keeps."""
    cdef BIO* bio
    cdef bytes text

    def __cinit__(self, bytes text not None):
        if PyBytes_GET_SIZE(text) > INT_MAX:
            raise ValueError("a PEM text is too long")
        self.text = text
        self.bio = BIO_new_mem_buf(PyBytes_AS_STRING(text), <int>PyBytes_GET_SIZE(text))
        if self.bio == NULL:
            ERR_clear_error()
            raise MemoryError

    def __dealloc__(self):
        BIO_free(self.bio)

    cdef X509* next(self) except? NULL:
        """The next certificate, which the caller frees; NULL when none is left. SSLError."""
        cdef unsigned long code
        cdef X509* found
        ERR_clear_error()
        found = PEM_read_bio_X509(self.bio, NULL, give_password, <void*>b"")
        if found == NULL:
            code = ERR_peek_last_error()
            if ERR_GET_LIB(code) != ERR_LIB_PEM or ERR_GET_REASON(code) != PEM_R_NO_START_LINE:
                raise error_of(code)
            ERR_clear_error()
        return found


cdef class OpenSslContext(TlsContext):
    """Settings of sessions: an `ssl.SSLContext` with the same ones exists beside it, and has judged them.

    `first_version`, `last_version`: of ssl.TLSVersion. `suites`: OpenSSL's list for TLS 1.2, at `security_level`.
    `verify`: of ssl.VerifyMode. `trusted`: certificates (PEM); `trusted_file` and `trusted_directory`: more of them, ""
    for none. `certificates` and `key`: the own chain (PEM), b"" for none; `password` decrypts the key.
    Raises `ssl.SSLError`.
    """

    def __init__(self, *, bint is_server, int first_version, int last_version, str suites not None,
                 int security_level, int verify, bint checks_name, bytes trusted not None, str trusted_file not None,
                 str trusted_directory not None, bytes certificates not None, bytes key not None,
                 bytes password not None):
        cdef int mode = SSL_VERIFY_NONE
        if self.context != NULL:
            raise ValueError("a context is initialized once")
        ERR_clear_error()
        self.is_server = is_server
        self.checks_name = checks_name
        self.context = SSL_CTX_new(TLS_server_method() if is_server else TLS_client_method())
        if self.context == NULL:
            raise error_of(ERR_peek_last_error())
        SSL_CTX_set_options(self.context, KF_OPTIONS | (SSL_OP_CIPHER_SERVER_PREFERENCE if is_server else 0))
        SSL_CTX_set_mode(self.context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER)
        SSL_CTX_set_security_level(self.context, security_level)
        self.check(SSL_CTX_set_min_proto_version(self.context, first_version))
        self.check(SSL_CTX_set_max_proto_version(self.context, last_version))
        if suites:
            self.check(SSL_CTX_set_cipher_list(self.context, suites.encode()))
        if verify != ssl.CERT_NONE:
            mode = SSL_VERIFY_PEER | (SSL_VERIFY_FAIL_IF_NO_PEER_CERT if verify == ssl.CERT_REQUIRED else 0)
        SSL_CTX_set_verify(self.context, mode, NULL)
        self.check(X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(self.context),
                                               X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST))
        X509_VERIFY_PARAM_set_hostflags(SSL_CTX_get0_param(self.context), X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS)
        # Without a name for them, sessions of clients with certificates cannot be resumed.
        self.check(SSL_CTX_set_session_id_context(self.context, <const unsigned char*>PyBytes_AS_STRING(SESSIONS_OF),
                                                  <unsigned int>PyBytes_GET_SIZE(SESSIONS_OF)))
        self.trust(trusted, trusted_file.encode(), trusted_directory.encode())
        if certificates:
            self.load(certificates, key, password)

    def __dealloc__(self):
        SSL_CTX_free(self.context)

    cdef int check(self, long result) except -1:
        if result != 1:
            raise error_of(ERR_peek_last_error())
        return 0

    cdef int trust(self, bytes certificates, bytes file, bytes directory) except -1:
        cdef X509_STORE* store = SSL_CTX_get_cert_store(self.context)
        cdef TextBio texts = TextBio(certificates)
        cdef X509* one = texts.next()
        cdef int added
        while one != NULL:
            added = X509_STORE_add_cert(store, one)
            X509_free(one)
            self.check(added)
            one = texts.next()
        if file or directory:
            self.check(SSL_CTX_load_verify_locations(
                self.context, PyBytes_AS_STRING(file) if file else NULL,
                PyBytes_AS_STRING(directory) if directory else NULL))
        return 0

    cdef int load(self, bytes certificates, bytes key, bytes password) except -1:
        cdef TextBio texts = TextBio(certificates)
        cdef TextBio key_text = TextBio(key)
        cdef EVP_PKEY* own
        cdef X509* one = texts.next()
        cdef int done = 0
        if one == NULL:
            raise ssl.SSLError("no certificate in PEM form")
        done = SSL_CTX_use_certificate(self.context, one)
        X509_free(one)
        self.check(done)
        one = texts.next()
        while one != NULL:
            done = SSL_CTX_add1_chain_cert(self.context, one)
            X509_free(one)
            self.check(done)
            one = texts.next()
        own = PEM_read_bio_PrivateKey(key_text.bio, NULL, give_password, PyBytes_AS_STRING(password))
        if own == NULL:
            raise error_of(ERR_peek_last_error())
        done = SSL_CTX_use_PrivateKey(self.context, own)
        EVP_PKEY_free(own)
        self.check(done)
        return self.check(SSL_CTX_check_private_key(self.context))

    cdef TlsSession open(self, TlsMemory memory, str server_name, bint checks_name):
        if memory.outgoing is None:
            memory.outgoing = OutgoingMemory()
        return OpenSslSession(self, memory.outgoing, server_name, checks_name)


cdef class OutgoingMemory:
    """Buffer of encrypted bytes, which all sessions of a loop use."""

    def __dealloc__(self):
        free(self.bytes.data)


cdef class OpenSslSession(TlsSession):
    """Compiled code creates it (`OpenSslContext.open`)."""

    def __init__(self, OpenSslContext context not None, OutgoingMemory outgoing not None, str server_name,
                 bint checks_name):
        cdef BIO* bio
        if self.handle != NULL or context.context == NULL:
            raise ValueError("a session is initialized once, from a context that is")
        global session_count
        self.context = context
        self.outgoing = outgoing
        session_count += 1
        self.number = session_count
        self.bytes.outgoing = &outgoing.bytes
        ERR_clear_error()
        self.handle = SSL_new(context.context)
        if self.handle == NULL:
            raise error_of(ERR_peek_last_error())
        bio = kf_tls_bytes_bio(METHOD, &self.bytes)
        if bio == NULL:
            raise error_of(ERR_peek_last_error())
        SSL_set_bio(self.handle, bio, bio)    # which frees it
        if context.is_server:
            SSL_set_accept_state(self.handle)
        else:
            SSL_set_connect_state(self.handle)
            self.expect(server_name, checks_name and context.checks_name)

    def __dealloc__(self):
        SSL_free(self.handle)
        kf_tls_forget(&self.bytes)

    cdef int expect(self, str server_name, bint is_checked) except -1:
        """Name the server that is wanted: its certificate must be for that name, or for that address."""
        cdef X509_VERIFY_PARAM* param = SSL_get0_param(self.handle)
        cdef bytes encoded
        if server_name is None:
            if is_checked:
                raise ValueError("the name of the server is to be checked, and it has none")
            return 0
        if not server_name or server_name.startswith(".") or "\0" in server_name:
            raise ValueError(f"{server_name!r} is not the name of a server")
        self.server_name = server_name
        try:
            encoded = str(ip_address(server_name)).encode()
        except ValueError:
            encoded = server_name.encode("idna")
            if SSL_set_tlsext_host_name(self.handle, encoded) != 1:
                raise error_of(ERR_peek_last_error())
            if is_checked and X509_VERIFY_PARAM_set1_host(param, encoded, <size_t>PyBytes_GET_SIZE(encoded)) != 1:
                raise error_of(ERR_peek_last_error())
            return 0
        if is_checked and X509_VERIFY_PARAM_set1_ip_asc(param, encoded) != 1:
            raise error_of(ERR_peek_last_error())
        return 0

    cdef int enter(self) except -1:
        if self.handle == NULL:
            raise ValueError("the session was not initialized")
        if self.outgoing.writer != self.number:
            # Bytes of another one are those of a connection that broke before it sent them.
            self.outgoing.bytes.size = 0
            self.outgoing.writer = self.number
        ERR_clear_error()
        return 0

    cdef object failure(self, int result):
        cdef int kind = SSL_get_error(self.handle, result)
        cdef unsigned long code = ERR_peek_last_error()
        cdef long verified
        cdef str why
        if kind != SSL_ERROR_SSL or code == 0:
            ERR_clear_error()
            return ssl.SSLError(kind, f"OpenSSL stopped with {kind} and without a reason")
        if ERR_GET_LIB(code) != ERR_LIB_SSL or ERR_GET_REASON(code) != SSL_R_CERTIFICATE_VERIFY_FAILED:
            return error_of(code)
        verified = SSL_get_verify_result(self.handle)
        if verified == X509_V_ERR_HOSTNAME_MISMATCH:
            why = f"Hostname mismatch, certificate is not valid for '{self.server_name}'."
        elif verified == X509_V_ERR_IP_ADDRESS_MISMATCH:
            why = f"IP address mismatch, certificate is not valid for '{self.server_name}'."
        else:
            why = X509_verify_cert_error_string(verified).decode("ascii", "replace")
        return error_of(code, why, verified)

    cdef int feed(self, const char* data, Py_ssize_t count) except -1:
        self.settle()
        self.bytes.lent = <const unsigned char*>data
        self.bytes.lent_bytes = <size_t>count
        return 0

    cdef int settle(self) except -1:
        if self.bytes.lent_bytes == 0:
            self.bytes.lent = NULL
            return 0
        if self.error is not None:
            kf_tls_forget(&self.bytes)     # nothing reads them
        elif kf_tls_keep(&self.bytes) < 0:
            kf_tls_forget(&self.bytes)
            raise MemoryError
        return 0

    cdef bint has_input(self) except -1:
        return kf_tls_unread(&self.bytes) > 0 or SSL_pending(self.handle) > 0

    cdef bint shake(self) except -1:
        cdef int result
        self.enter()
        with nogil:
            result = SSL_do_handshake(self.handle)
        if result == 1:
            return True
        if SSL_get_error(self.handle, result) == SSL_ERROR_WANT_READ:
            return False
        self.error = self.failure(result)
        raise self.error

    cdef Py_ssize_t read(self, char* to, Py_ssize_t count, SessionState* state) except -1:
        cdef size_t filled = 0
        cdef int result, kind
        self.enter()
        if count >= UNLOCK_BYTES_MIN and kf_tls_unread(&self.bytes) >= UNLOCK_BYTES_MIN:
            with nogil:
                result = read_records(self.handle, to, <size_t>count, &filled)
        else:
            result = read_records(self.handle, to, <size_t>count, &filled)
        state[0] = SESSION_MORE
        if result != 1:
            kind = SSL_get_error(self.handle, result)
            if kind == SSL_ERROR_WANT_READ:
                state[0] = SESSION_STARVED
            elif kind == SSL_ERROR_ZERO_RETURN:
                state[0] = SESSION_ENDED
            else:
                state[0] = SESSION_BROKEN
                self.error = self.failure(result)
        return <Py_ssize_t>filled

    cdef int write(self, const char* data, Py_ssize_t count) except -1:
        cdef size_t done = 0
        cdef int result
        self.enter()
        if count >= UNLOCK_BYTES_MIN:
            with nogil:
                result = SSL_write_ex(self.handle, data, <size_t>count, &done)
        else:
            result = SSL_write_ex(self.handle, data, <size_t>count, &done)
        if result != 1:
            raise self.failure(result)
        assert <Py_ssize_t>done == count, "the buffer accepts everything"
        return 0

    cdef int end(self) except -1:
        self.enter()
        SSL_shutdown(self.handle)
        ERR_clear_error()
        return 0

    cdef Py_ssize_t encrypted_bytes(self) except -1:
        return <Py_ssize_t>self.outgoing.bytes.size if self.outgoing.writer == self.number else 0

    cdef Py_ssize_t encrypted(self, const char** data) except -1:
        assert self.outgoing.writer == self.number
        data[0] = <const char*>self.outgoing.bytes.data
        return <Py_ssize_t>self.outgoing.bytes.size

    cdef int discard(self) except -1:
        if self.outgoing.writer == self.number:
            self.outgoing.bytes.size = 0
            self.outgoing.writer = 0
            if self.outgoing.bytes.capacity > OUTGOING_KEPT_MAX:
                free(self.outgoing.bytes.data)
                self.outgoing.bytes.data = NULL
                self.outgoing.bytes.capacity = 0
        return 0

    def library(self) -> str:
        return "openssl"

    def version(self) -> str | None:
        return None if SSL_get_current_cipher(self.handle) == NULL else SSL_get_version(self.handle).decode()

    def cipher(self) -> tuple[str, str, int] | None:
        cdef const SSL_CIPHER* found = SSL_get_current_cipher(self.handle)
        if found == NULL:
            return None
        return (SSL_CIPHER_get_name(found).decode(), SSL_CIPHER_get_version(found).decode(),
                SSL_CIPHER_get_bits(found, NULL))

    def peer_certificate(self) -> bytes | None:
        cdef X509* found = KF_PEER_CERTIFICATE(self.handle)
        cdef unsigned char* data = NULL
        cdef int count
        if found == NULL:
            return None
        count = i2d_X509(found, &data)
        X509_free(found)
        if count < 0:
            raise error_of(ERR_peek_last_error())
        try:
            return PyBytes_FromStringAndSize(<char*>data, count)
        finally:
            OPENSSL_free(data)


cdef int read_records(SSL* session, char* to, size_t count, size_t* filled) noexcept nogil:
    """Decrypt record after record, until `count` bytes are decrypted or a call has no more: its result."""
    cdef size_t done
    cdef int result = 1
    while filled[0] < count:
        done = 0
        result = SSL_read_ex(session, to + filled[0], count - filled[0], &done)
        if result != 1:
            return result
        filled[0] += done
    return result
