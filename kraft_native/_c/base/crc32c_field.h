/* Common part of the kernels: the polynomial, and constants to move a checksum over bytes that follow.
 *
 * Bit order. CRC-32C is reflected: the lowest bit of a word is its highest power of x. In a 32-bit word bit i stands
 * for x^(31-i), in a 64-bit word for x^(63-i), and so on. P is x^32 plus POLYNOMIAL.
 *
 * The register. Feeding a message M to a register that holds 0 leaves M * x^32 mod P. A register c, after n further
 * bits of zeros, holds c * x^n mod P. So the register of A followed by B is (register of A) * x^(bits of B) plus the
 * register of B alone, where plus is exclusive or.
 *
 * The one trick behind all constants here. The carry-less product of two 32-bit words a and b, read as a 64-bit word,
 * is a * b * x. The product has 63 bits, and the spare one is at the low end. Feeding that word to a zero register
 * multiplies by x^32 and reduces. So a multiplication and one crc32 instruction together compute a * b * x^33 mod P: a
 * constant meant to multiply by x^n is stored as x^(n-33) mod P.
 */
#ifndef KRAFT_CRC32C_FIELD_H
#define KRAFT_CRC32C_FIELD_H

#include <stdint.h>
#include <string.h>

#include "base/crc32c.h"

#define CRC32C_POLYNOMIAL 0x82F63B78u

/* How many 8-byte words each of three interleaved streams takes at most before the streams are joined. */
#define CRC32C_STREAM_WORDS_MAX 512

/* crc32c_shift[w] moves a register over w words of 8 bytes: x^(64w - 33) mod P. Three streams of w words need w, 2w
 * and 3w. */
extern uint32_t crc32c_shift[3 * CRC32C_STREAM_WORDS_MAX + 1];

/* crc32c_fold[i] moves a 128-bit value over 16 << i bytes. The low half of the value is the earlier one in the message
 * and stands 64 powers higher, hence two constants. */
typedef struct crc32c_fold_constant {
    uint64_t low;
    uint64_t high;
} crc32c_fold_constant;
extern crc32c_fold_constant crc32c_fold[5];

static inline uint64_t crc32c_load64(const uint8_t *p) {
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

void crc32c_table_setup(void);

extern const crc32c_kernel crc32c_kernel_table;
#if defined(__x86_64__)
extern const crc32c_kernel crc32c_kernel_sse42;
extern const crc32c_kernel crc32c_kernel_pclmul;
extern const crc32c_kernel crc32c_kernel_vpclmul;
extern const crc32c_kernel crc32c_kernel_avx512;
#elif defined(__aarch64__)
extern const crc32c_kernel crc32c_kernel_arm;
#endif

#endif
