/* CRC-32C (Castagnoli), the checksum of record batches: several kernels, one of them chosen at import.
 *
 * Every kernel computes the same function. `seed` is the checksum of the bytes before (0 at the start), so that a
 * checksum can be computed in pieces. `crc32c_setup` must have run once before any kernel is called; after it all
 * functions are pure and any thread may call them.
 */
#ifndef KRAFT_CRC32C_H
#define KRAFT_CRC32C_H

#include <stddef.h>
#include <stdint.h>

typedef uint32_t (*crc32c_fn)(uint32_t seed, const uint8_t *data, size_t size);

typedef struct crc32c_kernel {
    const char *name;
    int (*runs_here)(void); /* whether this processor and operating system can run it */
    crc32c_fn checksum;
    uint32_t (*product)(uint32_t a, uint32_t b); /* a * b * x^33 mod P, see crc32c_field.h */
} crc32c_kernel;

/* Slowest first, `crc32c_kernel_count` of them: those that were compiled in, whether or not they run here. */
extern const crc32c_kernel *const crc32c_kernels[];
extern const int crc32c_kernel_count;

void crc32c_setup(void);

/* The fastest kernel that runs here. */
const crc32c_kernel *crc32c_choose(void);

/* The checksum of A followed by B, from the two checksums and the length of B. */
uint32_t crc32c_combine(const crc32c_kernel *kernel, uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b);

#endif
