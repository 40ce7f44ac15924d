"""Declarations of OpenSSL (1.1.1 and 3). The library's manual documents all of them."""

cdef extern from "openssl/opensslv.h" nogil:
    const unsigned long OPENSSL_VERSION_NUMBER

cdef extern from "openssl/crypto.h" nogil:
    enum:
        OPENSSL_VERSION
    const char* OpenSSL_version(int which)
    unsigned long OpenSSL_version_num()
    void OPENSSL_free(void* data)

cdef extern from "openssl/err.h" nogil:
    enum:
        ERR_LIB_SSL
        ERR_LIB_X509
    unsigned long ERR_peek_last_error()
    void ERR_clear_error()
    const char* ERR_lib_error_string(unsigned long error)
    const char* ERR_reason_error_string(unsigned long error)
    int ERR_GET_LIB(unsigned long error)
    int ERR_GET_REASON(unsigned long error)
    unsigned long ERR_PACK(int library, int function, int reason)

cdef extern from "openssl/bio.h" nogil:
    ctypedef struct BIO
    ctypedef struct BIO_METHOD
    BIO* BIO_new_mem_buf(const void* data, int count)
    int BIO_free(BIO* bio)

cdef extern from "openssl/x509v3.h" nogil:
    ctypedef struct X509
    ctypedef struct X509_STORE
    ctypedef struct X509_VERIFY_PARAM
    ctypedef struct EVP_PKEY
    enum:
        X509_V_ERR_HOSTNAME_MISMATCH
        X509_V_ERR_IP_ADDRESS_MISMATCH
        X509_V_FLAG_PARTIAL_CHAIN
        X509_V_FLAG_TRUSTED_FIRST
        X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS
    void X509_free(X509* certificate)
    int X509_STORE_add_cert(X509_STORE* store, X509* certificate)
    int X509_VERIFY_PARAM_set_flags(X509_VERIFY_PARAM* param, unsigned long flags)
    void X509_VERIFY_PARAM_set_hostflags(X509_VERIFY_PARAM* param, unsigned int flags)
    int X509_VERIFY_PARAM_set1_host(X509_VERIFY_PARAM* param, const char* name, size_t count)
    int X509_VERIFY_PARAM_set1_ip_asc(X509_VERIFY_PARAM* param, const char* address)
    const char* X509_verify_cert_error_string(long error)
    int i2d_X509(X509* certificate, unsigned char** data)
    void EVP_PKEY_free(EVP_PKEY* key)

cdef extern from "openssl/pem.h" nogil:
    enum:
        PEM_R_NO_START_LINE
        ERR_LIB_PEM
    ctypedef int (*pem_password_cb)(char* to, int room, int for_writing, void* user) noexcept nogil
    X509* PEM_read_bio_X509(BIO* bio, X509** to, pem_password_cb password, void* user)
    EVP_PKEY* PEM_read_bio_PrivateKey(BIO* bio, EVP_PKEY** to, pem_password_cb password, void* user)

cdef extern from "openssl/ssl.h" nogil:
    """
    /* Names and integer types that differ between OpenSSL 1.1.1 and 3. */
    #if OPENSSL_VERSION_NUMBER >= 0x30000000L
    #define KF_PEER_CERTIFICATE(ssl) SSL_get1_peer_certificate(ssl)
    #else
    #define KF_PEER_CERTIFICATE(ssl) SSL_get_peer_certificate(ssl)
    #endif
    /* An end without an alert is the transport's business: the BIO never reports one. */
    #define KF_OPTIONS (SSL_OP_ALL | SSL_OP_NO_SSLv3 | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION \\
                        | SSL_OP_SINGLE_DH_USE | SSL_OP_SINGLE_ECDH_USE)
    """
    ctypedef struct SSL
    ctypedef struct SSL_CTX
    ctypedef struct SSL_METHOD
    ctypedef struct SSL_CIPHER
    enum:
        SSL_MODE_RELEASE_BUFFERS
        SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER
        SSL_VERIFY_NONE
        SSL_VERIFY_PEER
        SSL_VERIFY_FAIL_IF_NO_PEER_CERT
        SSL_ERROR_SSL
        SSL_ERROR_WANT_READ
        SSL_ERROR_ZERO_RETURN
        SSL_R_CERTIFICATE_VERIFY_FAILED
    const unsigned long KF_OPTIONS
    const unsigned long SSL_OP_CIPHER_SERVER_PREFERENCE
    const SSL_METHOD* TLS_server_method()
    const SSL_METHOD* TLS_client_method()
    SSL_CTX* SSL_CTX_new(const SSL_METHOD* method)
    void SSL_CTX_free(SSL_CTX* context)
    unsigned long SSL_CTX_set_options(SSL_CTX* context, unsigned long options)
    long SSL_CTX_set_mode(SSL_CTX* context, long mode)
    int SSL_CTX_set_min_proto_version(SSL_CTX* context, int version)
    int SSL_CTX_set_max_proto_version(SSL_CTX* context, int version)
    int SSL_CTX_set_cipher_list(SSL_CTX* context, const char* names)
    void SSL_CTX_set_security_level(SSL_CTX* context, int level)
    int SSL_CTX_use_certificate(SSL_CTX* context, X509* certificate)
    int SSL_CTX_add1_chain_cert(SSL_CTX* context, X509* certificate)
    int SSL_CTX_use_PrivateKey(SSL_CTX* context, EVP_PKEY* key)
    int SSL_CTX_check_private_key(const SSL_CTX* context)
    int SSL_CTX_load_verify_locations(SSL_CTX* context, const char* file, const char* directory)
    X509_STORE* SSL_CTX_get_cert_store(const SSL_CTX* context)
    X509_VERIFY_PARAM* SSL_CTX_get0_param(SSL_CTX* context)
    void SSL_CTX_set_verify(SSL_CTX* context, int mode, void* callback)
    int SSL_CTX_set_session_id_context(SSL_CTX* context, const unsigned char* data, unsigned int count)
    SSL* SSL_new(SSL_CTX* context)
    void SSL_free(SSL* session)
    void SSL_set_bio(SSL* session, BIO* reads, BIO* writes)
    void SSL_set_accept_state(SSL* session)
    void SSL_set_connect_state(SSL* session)
    long SSL_set_tlsext_host_name(SSL* session, const char* name)
    X509_VERIFY_PARAM* SSL_get0_param(SSL* session)
    int SSL_do_handshake(SSL* session)
    int SSL_read_ex(SSL* session, void* to, size_t count, size_t* done)
    int SSL_write_ex(SSL* session, const void* data, size_t count, size_t* done)
    int SSL_shutdown(SSL* session)
    int SSL_get_error(const SSL* session, int result)
    int SSL_pending(const SSL* session)
    long SSL_get_verify_result(const SSL* session)
    const char* SSL_get_version(const SSL* session)
    const SSL_CIPHER* SSL_get_current_cipher(const SSL* session)
    const char* SSL_CIPHER_get_name(const SSL_CIPHER* cipher)
    const char* SSL_CIPHER_get_version(const SSL_CIPHER* cipher)
    int SSL_CIPHER_get_bits(const SSL_CIPHER* cipher, int* bits)
    X509* KF_PEER_CERTIFICATE(const SSL* session)

cdef extern from "net/tls_bytes.h" nogil:
    ctypedef struct kf_tls_outgoing:
        unsigned char* data
        size_t size
        size_t capacity
    ctypedef struct kf_tls_bytes:
        const unsigned char* lent
        size_t lent_bytes
        kf_tls_outgoing* outgoing
    BIO_METHOD* kf_tls_bytes_method()
    BIO* kf_tls_bytes_bio(BIO_METHOD* method, kf_tls_bytes* bytes)
    int kf_tls_keep(kf_tls_bytes* bytes)
    size_t kf_tls_unread(const kf_tls_bytes* bytes)
    void kf_tls_forget(kf_tls_bytes* bytes)
