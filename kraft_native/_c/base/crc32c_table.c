/* The portable kernel: sixteen bytes per step by as many table look-ups, none of which waits for another. */
#include "base/crc32c_field.h"

#define SLICES 16

/* tables[k][b] is the register after the byte b and k bytes of zeros. */
static uint32_t tables[SLICES][256];

void crc32c_table_setup(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (CRC32C_POLYNOMIAL & (0u - (crc & 1u)));
        tables[0][byte] = crc;
    }
    for (int k = 1; k < SLICES; k++) {
        for (int byte = 0; byte < 256; byte++) {
            uint32_t crc = tables[k - 1][byte];
            tables[k][byte] = (crc >> 8) ^ tables[0][crc & 0xFF];
        }
    }
}

/* Four bytes, the last of them followed by `after` bytes of the same step. */
static inline uint32_t look_up(uint32_t word, int after) {
    return (tables[after + 3][word & 0xFF] ^ tables[after + 2][(word >> 8) & 0xFF]) ^
           (tables[after + 1][(word >> 16) & 0xFF] ^ tables[after][word >> 24]);
}

static inline uint32_t load32(const uint8_t *p) {
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

static uint32_t checksum(uint32_t seed, const uint8_t *data, size_t size) {
    uint32_t crc = ~seed;
    for (; size >= SLICES; data += SLICES, size -= SLICES) {
        /* Twelve of the bytes do not wait for the register: their entries are read ahead. */
        uint32_t ahead = look_up(load32(data + 4), 8) ^ look_up(load32(data + 8), 4) ^ look_up(load32(data + 12), 0);
        crc = look_up(load32(data) ^ crc, 12) ^ ahead;
    }
    for (; size > 0; data++, size--) crc = (crc >> 8) ^ tables[0][(crc ^ *data) & 0xFF];
    return ~crc;
}

static uint32_t product(uint32_t a, uint32_t b) {
    uint64_t word = 0;
    for (int i = 0; i < 32; i++) word ^= ((uint64_t)b << i) & (0 - (uint64_t)((a >> i) & 1));
    return look_up((uint32_t)word, 4) ^ look_up((uint32_t)(word >> 32), 0);
}

static int runs_here(void) { return 1; }

const crc32c_kernel crc32c_kernel_table = {"table", runs_here, checksum, product};
