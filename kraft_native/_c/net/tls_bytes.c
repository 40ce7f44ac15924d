#include "net/tls_bytes.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { OUTGOING_BYTES_MIN = 16 * 1024 };

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static int read_bytes(BIO *bio, char *to, size_t wanted, size_t *done) {
    kf_tls_bytes *bytes = BIO_get_data(bio);
    size_t kept = smaller(wanted, bytes->kept_bytes - bytes->kept_at);
    size_t lent = smaller(wanted - kept, bytes->lent_bytes);
    BIO_clear_retry_flags(bio);
    *done = kept + lent;
    if (*done == 0) {
        BIO_set_retry_read(bio);   /* more may arrive: the end of a connection is not OpenSSL's business */
        return 0;
    }
    if (kept > 0) {
        memcpy(to, bytes->kept + bytes->kept_at, kept);
        bytes->kept_at += kept;
        if (bytes->kept_at == bytes->kept_bytes) {
            free(bytes->kept);
            bytes->kept = NULL;
            bytes->kept_at = bytes->kept_bytes = 0;
        }
    }
    if (lent > 0) {
        memcpy(to + kept, bytes->lent, lent);
        bytes->lent += lent;
        bytes->lent_bytes -= lent;
    }
    return 1;
}

/* Accepts all or, without memory, nothing: then the session has failed. */
static int write_bytes(BIO *bio, const char *from, size_t count, size_t *done) {
    kf_tls_outgoing *outgoing = ((kf_tls_bytes *)BIO_get_data(bio))->outgoing;
    BIO_clear_retry_flags(bio);
    *done = 0;
    if (count > outgoing->capacity - outgoing->size) {
        size_t capacity = outgoing->capacity > 0 ? outgoing->capacity : OUTGOING_BYTES_MIN;
        unsigned char *grown;
        if (count > INT_MAX || outgoing->size > INT_MAX)
            return 0;
        while (capacity - outgoing->size < count)
            capacity *= 2;
        grown = realloc(outgoing->data, capacity);
        if (grown == NULL)
            return 0;
        outgoing->data = grown;
        outgoing->capacity = capacity;
    }
    memcpy(outgoing->data + outgoing->size, from, count);
    outgoing->size += count;
    *done = count;
    return 1;
}

static long control(BIO *bio, int command, long number, void *pointer) {
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH || command == BIO_CTRL_DUP;
}

static int create(BIO *bio) {
    BIO_set_init(bio, 1);
    return 1;
}

BIO_METHOD *kf_tls_bytes_method(void) {
    int kind = BIO_get_new_index();
    BIO_METHOD *method = kind < 0 ? NULL : BIO_meth_new(kind | BIO_TYPE_SOURCE_SINK, "kraft bytes");
    if (method == NULL)
        return NULL;
    if (BIO_meth_set_read_ex(method, read_bytes) && BIO_meth_set_write_ex(method, write_bytes)
        && BIO_meth_set_ctrl(method, control) && BIO_meth_set_create(method, create))
        return method;
    BIO_meth_free(method);
    return NULL;
}

BIO *kf_tls_bytes_bio(BIO_METHOD *method, kf_tls_bytes *bytes) {
    BIO *bio = BIO_new(method);
    if (bio != NULL)
        BIO_set_data(bio, bytes);
    return bio;
}

int kf_tls_keep(kf_tls_bytes *bytes) {
    size_t kept = bytes->kept_bytes - bytes->kept_at;
    unsigned char *joined;
    if (bytes->lent_bytes == 0)
        return 0;
    joined = malloc(kept + bytes->lent_bytes);
    if (joined == NULL)
        return -1;
    if (kept > 0)
        memcpy(joined, bytes->kept + bytes->kept_at, kept);
    memcpy(joined + kept, bytes->lent, bytes->lent_bytes);
    free(bytes->kept);
    bytes->kept = joined;
    bytes->kept_at = 0;
    bytes->kept_bytes = kept + bytes->lent_bytes;
    bytes->lent = NULL;
    bytes->lent_bytes = 0;
    return 0;
}

size_t kf_tls_unread(const kf_tls_bytes *bytes) {
    return bytes->kept_bytes - bytes->kept_at + bytes->lent_bytes;
}

void kf_tls_forget(kf_tls_bytes *bytes) {
    free(bytes->kept);
    bytes->kept = NULL;
    bytes->kept_at = bytes->kept_bytes = 0;
    bytes->lent = NULL;
    bytes->lent_bytes = 0;
}
