/* The kernel for 64-bit ARM: three streams of the crc32c instruction, joined by carry-less multiplication. */
#if defined(__aarch64__)

#include <arm_acle.h>
#include <arm_neon.h>
#include <sys/auxv.h>

#include "base/crc32c_field.h"

#if defined(__clang__)
/* Older versions hide the functions of <arm_acle.h> unless the whole file is compiled for a processor with them. */
#define ARM_TARGET __attribute__((target("crc,aes")))
#define CRC32C_8(crc, byte) __builtin_arm_crc32cb(crc, byte)
#define CRC32C_16(crc, word) __builtin_arm_crc32ch(crc, word)
#define CRC32C_32(crc, word) __builtin_arm_crc32cw(crc, word)
#define CRC32C_64(crc, word) __builtin_arm_crc32cd(crc, word)
#else
#define ARM_TARGET __attribute__((target("+crc+crypto")))
#define CRC32C_8(crc, byte) __crc32cb(crc, byte)
#define CRC32C_16(crc, word) __crc32ch(crc, word)
#define CRC32C_32(crc, word) __crc32cw(crc, word)
#define CRC32C_64(crc, word) __crc32cd(crc, word)
#endif

/* From the kernel's <asm/hwcap.h>, part of its binary interface. */
#define HWCAP_PMULL_BIT (1ul << 4)
#define HWCAP_CRC32_BIT (1ul << 7)

/* Below this, joining three streams costs more than it saves. */
#define STREAMS_BYTES_MIN 128

ARM_TARGET static inline uint32_t one_stream(uint32_t crc, const uint8_t *p, size_t size) {
    for (; size >= 8; p += 8, size -= 8) crc = CRC32C_64(crc, crc32c_load64(p));
    if (size & 4) {
        uint32_t word;
        memcpy(&word, p, sizeof word);
        crc = CRC32C_32(crc, word);
        p += 4;
    }
    if (size & 2) {
        uint16_t word;
        memcpy(&word, p, sizeof word);
        crc = CRC32C_16(crc, word);
        p += 2;
    }
    return size & 1 ? CRC32C_8(crc, *p) : crc;
}

/* The carry-less product of two registers or constants, one 64-bit word. */
ARM_TARGET static inline uint64_t word_product(uint32_t a, uint32_t b) {
    return vgetq_lane_u64(vreinterpretq_u64_p128(vmull_p64(a, b)), 0);
}

ARM_TARGET static uint32_t product(uint32_t a, uint32_t b) { return CRC32C_64(0, word_product(a, b)); }

ARM_TARGET static uint32_t checksum(uint32_t seed, const uint8_t *data, size_t size) {
    uint32_t crc = ~seed;
    while (size >= STREAMS_BYTES_MIN) {
        size_t words = size / 24;
        if (words > CRC32C_STREAM_WORDS_MAX) words = CRC32C_STREAM_WORDS_MAX;
        const uint8_t *first = data, *second = data + 8 * words, *third = data + 16 * words;
        uint32_t a = crc, b = 0, c = 0;
        for (size_t i = 0; i < 8 * words; i += 8) {
            a = CRC32C_64(a, crc32c_load64(first + i));
            b = CRC32C_64(b, crc32c_load64(second + i));
            c = CRC32C_64(c, crc32c_load64(third + i));
        }
        crc = CRC32C_64(0, word_product(a, crc32c_shift[2 * words]) ^ word_product(b, crc32c_shift[words])) ^ c;
        data += 24 * words;
        size -= 24 * words;
    }
    return ~one_stream(crc, data, size);
}

static int runs_here(void) {
    unsigned long bits = getauxval(AT_HWCAP);
    return (bits & HWCAP_CRC32_BIT) != 0 && (bits & HWCAP_PMULL_BIT) != 0;
}

const crc32c_kernel crc32c_kernel_arm = {"arm", runs_here, checksum, product};

#else
typedef int crc32c_arm_is_empty;
#endif
