/* Encrypted bytes of a TLS session, as OpenSSL reads and writes them (a BIO of our own).
 *
 * OpenSSL reads where the socket's bytes lie. What it leaves is copied once, when that memory is needed for others.
 * All that it writes goes into one buffer, which the sessions of a thread share: it is sent and emptied before the
 * next session uses it. The functions that OpenSSL calls need no interpreter lock, and no other thread.
 */
#ifndef KRAFT_TLS_BYTES_H
#define KRAFT_TLS_BYTES_H

#include <stddef.h>

#include <openssl/bio.h>

#if OPENSSL_VERSION_NUMBER < 0x10101000L
#error "OpenSSL 1.1.1 or newer is needed"
#endif

/* Encrypted bytes that leave next. `data` is from malloc, NULL without bytes. */
typedef struct {
    unsigned char *data;
    size_t size;
    size_t capacity;
} kf_tls_outgoing;

typedef struct {
    const unsigned char *lent;     /* bytes of the peer that belong to others, after those that are kept */
    size_t lent_bytes;
    unsigned char *kept;           /* from malloc; NULL: none */
    size_t kept_at;                /* those before are read */
    size_t kept_bytes;
    kf_tls_outgoing *outgoing;
} kf_tls_bytes;

/* Type of the BIO; NULL without memory. One is enough for a process; it is never freed. */
BIO_METHOD *kf_tls_bytes_method(void);
/* A BIO over `bytes`, which live longer than it; NULL without memory. */
BIO *kf_tls_bytes_bio(BIO_METHOD *method, kf_tls_bytes *bytes);
/* Copies the rest of what is lent. -1 without memory: nothing is changed. */
int kf_tls_keep(kf_tls_bytes *bytes);
/* Count of the peer's bytes that OpenSSL has not read. */
size_t kf_tls_unread(const kf_tls_bytes *bytes);
void kf_tls_forget(kf_tls_bytes *bytes);

#endif
