#include "base/crc32c.h"
#include "base/crc32c_field.h"

/* The multiplicative order of x modulo P: P is (x + 1) times a primitive polynomial of degree 31. Exponents may be
 * reduced by it, which also turns the negative ones into positive ones. */
#define X_ORDER 0x7FFFFFFFu

#define ONE 0x80000000u /* x^0 */

uint32_t crc32c_shift[3 * CRC32C_STREAM_WORDS_MAX + 1];
crc32c_fold_constant crc32c_fold[5];

/* shift_bytes[d][v] is x^(8 * v * 256^d) mod P, stored for `product`. Four digits reach past X_ORDER. */
static uint32_t shift_bytes[4][256];

const crc32c_kernel *const crc32c_kernels[] = {
    &crc32c_kernel_table,
#if defined(__x86_64__)
    &crc32c_kernel_sse42,
    &crc32c_kernel_pclmul,
    &crc32c_kernel_vpclmul,
    &crc32c_kernel_avx512,
#elif defined(__aarch64__)
    &crc32c_kernel_arm,
#endif
};
const int crc32c_kernel_count = sizeof crc32c_kernels / sizeof crc32c_kernels[0];

/* a * b mod P, one bit at a time: for constants only. */
static uint32_t multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (; a != 0; a <<= 1) {
        if (a & ONE) product ^= b;
        b = (b >> 1) ^ (CRC32C_POLYNOMIAL & (0u - (b & 1u)));
    }
    return product;
}

/* x^n mod P for any n, also below zero. */
static uint32_t power(int64_t n) {
    int64_t exponent = n % (int64_t)X_ORDER;
    if (exponent < 0) exponent += X_ORDER;
    uint32_t result = ONE;
    for (uint32_t square = ONE >> 1; exponent != 0; exponent >>= 1) {
        if (exponent & 1) result = multiply(result, square);
        square = multiply(square, square);
    }
    return result;
}

/* out[i] = first * ratio^i */
static void fill_powers(uint32_t *out, int count, uint32_t first, uint32_t ratio) {
    for (int i = 0; i < count; i++) {
        out[i] = first;
        first = multiply(first, ratio);
    }
}

void crc32c_setup(void) {
    crc32c_table_setup();
    fill_powers(crc32c_shift, 3 * CRC32C_STREAM_WORDS_MAX + 1, power(-33), power(64));
    for (int i = 0; i < 5; i++) {
        int64_t bits = 128LL << i;
        crc32c_fold[i].low = power(bits + 64 - 33);
        crc32c_fold[i].high = power(bits - 33);
    }
    for (int digit = 0; digit < 4; digit++) fill_powers(shift_bytes[digit], 256, power(-33), power(8LL << (8 * digit)));
}

const crc32c_kernel *crc32c_choose(void) {
    int best = crc32c_kernel_count - 1;
    while (!crc32c_kernels[best]->runs_here()) best--; /* the table kernel runs everywhere */
    return crc32c_kernels[best];
}

uint32_t crc32c_combine(const crc32c_kernel *kernel, uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b) {
    /* The complements at both ends of a checksum cancel out: moved over B, the final complement of A is the initial
     * one of B. So finished checksums combine like bare registers. */
    uint32_t left = (uint32_t)(bytes_b % X_ORDER);
    for (int digit = 0; left != 0; digit++, left >>= 8) {
        if (left & 0xFF) crc_a = kernel->product(crc_a, shift_bytes[digit][left & 0xFF]);
    }
    return crc_a ^ crc_b;
}
