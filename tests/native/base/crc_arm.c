/* The kernel for ARM beside the table kernel; `test_crc_arm.py` compiles it for ARM and runs it in an emulator.
 *
 * Covers every length to 4,096 at every offset within a cache line, lengths around each multiple of the bytes of one
 * iteration of the three streams, and joined pieces. Prints the chosen kernel and the number of compared checksums.
 * Exits with 1 at the first checksum that differs, and prints it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c_field.h"

#define SHORT_BYTES_MAX 4096
#define OFFSETS 64
#define TURN_BYTES (3 * 8 * CRC32C_STREAM_WORDS_MAX)
#define LONG_BYTES_MAX (4 * TURN_BYTES)

static uint8_t source[LONG_BYTES_MAX];
static _Alignas(OFFSETS) uint8_t moved[SHORT_BYTES_MAX + OFFSETS];
static long compared = 0;

static void same(uint32_t ours, uint32_t wanted, const char *what, size_t size, size_t at) {
    compared++;
    if (ours == wanted) return;
    fprintf(stderr, "%s: %zu bytes at %zu: %08x, the table says %08x\n", what, size, at, ours, wanted);
    exit(1);
}

int main(void) {
    static uint32_t wanted[SHORT_BYTES_MAX + 1];
    crc32c_setup();
    const crc32c_kernel *kernel = crc32c_choose(), *table = &crc32c_kernel_table;
    uint32_t random = 1, seed = 0x5EED;
    for (size_t i = 0; i < sizeof source; i++) {
        random = random * 1664525u + 1013904223u;
        source[i] = (uint8_t)(random >> 24);
    }
    for (size_t size = 0; size <= SHORT_BYTES_MAX; size++) wanted[size] = table->checksum(seed, source, size);
    for (size_t offset = 0; offset < OFFSETS; offset++) {
        memcpy(moved + offset, source, SHORT_BYTES_MAX);
        for (size_t size = 0; size <= SHORT_BYTES_MAX; size++)
            same(kernel->checksum(seed, moved + offset, size), wanted[size], "short", size, offset);
    }
    for (size_t turns = 1; turns <= 3; turns++)
        for (size_t size = turns * TURN_BYTES - 200; size <= turns * TURN_BYTES + 200; size++)
            same(kernel->checksum(seed, source, size), table->checksum(seed, source, size), "long", size, 0);
    uint32_t whole = table->checksum(0, source, sizeof source);
    for (size_t cut = 0; cut <= sizeof source; cut += 997) {
        uint32_t front = kernel->checksum(0, source, cut);
        uint32_t back = kernel->checksum(0, source + cut, sizeof source - cut);
        same(kernel->checksum(front, source + cut, sizeof source - cut), whole, "continued", sizeof source, cut);
        same(crc32c_combine(kernel, front, back, sizeof source - cut), whole, "combined", sizeof source, cut);
    }
    printf("%s %ld\n", kernel->name, compared);
    return 0;
}
