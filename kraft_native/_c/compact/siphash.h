/* SipHash with one compression round and three finalisation rounds, 128-bit output (Aumasson and Bernstein, 2012).
 *
 * For tables that identify keys by their hash alone. With a random key that never leaves the process it behaves as a
 * pseudorandom function. An adversary that chooses the inputs cannot choose outputs, and so cannot make two keys
 * collide. A hash without a secret (CRC, xxHash, MD5) gives no such promise whatever its width. 1-3 is the variant that
 * Python's own str hash uses.
 */
#ifndef KRAFT_SIPHASH_H
#define KRAFT_SIPHASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t ks_rotate(uint64_t v, int bits) { return (v << bits) | (v >> (64 - bits)); }

#define KS_ROUND(a, b, c, d)                                                                                         \
    do {                                                                                                             \
        a += b;                                                                                                      \
        c += d;                                                                                                      \
        b = ks_rotate(b, 13) ^ a;                                                                                    \
        d = ks_rotate(d, 16) ^ c;                                                                                    \
        a = ks_rotate(a, 32) + d;                                                                                    \
        c += b;                                                                                                      \
        d = ks_rotate(d, 21) ^ a;                                                                                    \
        b = ks_rotate(b, 17) ^ c;                                                                                    \
        c = ks_rotate(c, 32);                                                                                        \
    } while (0)

/* The last 0 to 7 bytes, little-endian. */
static inline uint64_t ks_tail(const uint8_t *p, size_t size) {
    uint64_t v = 0;
    uint32_t low;
    uint16_t two;
    size_t at = 0;
    if (size & 4) {
        memcpy(&low, p, 4);
        v = low;
        at = 4;
    }
    if (size & 2) {
        memcpy(&two, p + at, 2);
        v |= (uint64_t)two << (8 * at);
        at += 2;
    }
    if (size & 1)
        v |= (uint64_t)p[at] << (8 * at);
    return v;
}

/* 128 bits of data[0:size] under the 128-bit key, as two numbers: the output's bytes 0 to 7 and 8 to 15. */
static inline void kraft_siphash(const uint64_t key[2], const uint8_t *data, size_t size, uint64_t out[2]) {
    uint64_t a = key[0] ^ 0x736f6d6570736575ULL;
    uint64_t b = key[1] ^ 0x646f72616e646f6dULL ^ 0xee;
    uint64_t c = key[0] ^ 0x6c7967656e657261ULL;
    uint64_t d = key[1] ^ 0x7465646279746573ULL;
    uint64_t word;
    size_t left = size;
    for (; left >= 8; left -= 8, data += 8) {
        memcpy(&word, data, 8);
        d ^= word;
        KS_ROUND(a, b, c, d);
        a ^= word;
    }
    word = ((uint64_t)size << 56) | ks_tail(data, left);
    d ^= word;
    KS_ROUND(a, b, c, d);
    a ^= word;
    c ^= 0xee;
    KS_ROUND(a, b, c, d);
    KS_ROUND(a, b, c, d);
    KS_ROUND(a, b, c, d);
    out[0] = a ^ b ^ c ^ d;
    b ^= 0xdd;
    KS_ROUND(a, b, c, d);
    KS_ROUND(a, b, c, d);
    KS_ROUND(a, b, c, d);
    out[1] = a ^ b ^ c ^ d;
}

/* The upper 64 bits of a product: spreads a hash over [0, count) in the order of the hashes. */
static inline uint64_t ks_scale(uint64_t hash, uint64_t count) {
    return (uint64_t)(((unsigned __int128)hash * count) >> 64);
}

#endif
