/* Kernels for x86-64.
 *
 * The crc32 instruction reads 8 bytes, has a latency of 3 cycles and can start every cycle: three independent streams
 * keep it busy (`sse42`). Carry-less multiplication runs on other execution ports at the same time. So the larger
 * kernels also fold a part of the input with it, in the same loop: 128 bits wide (`pclmul`), 256 (`vpclmul`) or 512
 * (`avx512`). Short input is a matter of latency, not of throughput, and goes through one stream.
 *
 * Instruction sets are enabled per function, never for the file: nothing here runs before `runs_here` returned true.
 */
#if defined(__x86_64__)

#include <immintrin.h>

#include "base/crc32c_field.h"

#define SCALAR_TARGET __attribute__((target("sse4.2,pclmul")))

/* Below this, joining three streams costs more than it saves. Likewise BLOCK_BYTES_MIN of the kernels further down:
 * below it they do as `sse42` does. The first two were measured, that of `avx512` holds two rounds and is a guess. */
#define STREAMS_BYTES_MIN 128

/* The bytes from p to end. At least the 8 bytes before `end` must be readable, also when fewer are left. */
SCALAR_TARGET static inline uint32_t one_stream(uint32_t crc, const uint8_t *p, const uint8_t *end) {
    if (p == end) return crc;
    uint64_t wide = crc;
    for (; end - p > 8; p += 8) wide = _mm_crc32_u64(wide, crc32c_load64(p));
    /* 1 to 8 bytes are left. Leading zeros do not change a zero register. So the last bytes are fed as a whole word,
     * shifted to its end; the part of the old register that they do not reach is shifted out below them. */
    int bits = (int)(end - p) * 8;
    uint64_t last = crc32c_load64(end - 8) >> (64 - bits);
    uint64_t rest = (wide >> (bits - 1)) >> 1;
    return (uint32_t)(rest ^ _mm_crc32_u64(0, (wide ^ last) << (64 - bits)));
}

SCALAR_TARGET static inline uint32_t under_8_bytes(uint32_t crc, const uint8_t *p, size_t size) {
    if (size & 4) {
        uint32_t word;
        memcpy(&word, p, sizeof word);
        crc = _mm_crc32_u32(crc, word);
        p += 4;
    }
    if (size & 2) {
        uint16_t word;
        memcpy(&word, p, sizeof word);
        crc = _mm_crc32_u16(crc, word);
        p += 2;
    }
    return size & 1 ? _mm_crc32_u8(crc, *p) : crc;
}

/* The carry-less product of two registers or constants, one 64-bit word. */
SCALAR_TARGET static inline uint64_t word_product(uint32_t a, uint32_t b) {
    return (uint64_t)_mm_cvtsi128_si64(_mm_clmulepi64_si128(_mm_cvtsi32_si128((int)a), _mm_cvtsi32_si128((int)b), 0));
}

SCALAR_TARGET static uint32_t product(uint32_t a, uint32_t b) {
    return (uint32_t)_mm_crc32_u64(0, word_product(a, b));
}

/* The register of up to three streams of `words` words each, which followed each other in the message. */
typedef struct streams {
    uint64_t crc[3];
} streams;

SCALAR_TARGET static inline void streams_step(streams *s, const uint8_t *p, size_t stride) {
    s->crc[0] = _mm_crc32_u64(s->crc[0], crc32c_load64(p));
    s->crc[1] = _mm_crc32_u64(s->crc[1], crc32c_load64(p + stride));
    s->crc[2] = _mm_crc32_u64(s->crc[2], crc32c_load64(p + 2 * stride));
}

/* Joins them; `before` is the product that moves what came before them over all three, or 0. */
SCALAR_TARGET static inline uint32_t streams_join(const streams *s, size_t words, uint64_t before) {
    uint64_t moved = before ^ word_product((uint32_t)s->crc[0], crc32c_shift[2 * words]) ^
                     word_product((uint32_t)s->crc[1], crc32c_shift[words]);
    return (uint32_t)(_mm_crc32_u64(0, moved) ^ s->crc[2]);
}

SCALAR_TARGET static uint32_t checksum_sse42(uint32_t seed, const uint8_t *data, size_t size) {
    uint32_t crc = ~seed;
    if (size < 8) return ~under_8_bytes(crc, data, size);
    const uint8_t *end = data + size;
    while (end - data >= STREAMS_BYTES_MIN) {
        size_t words = (size_t)(end - data) / 24;
        if (words > CRC32C_STREAM_WORDS_MAX) words = CRC32C_STREAM_WORDS_MAX;
        streams s = {{crc, 0, 0}};
        for (size_t i = 0; i < words; i++) streams_step(&s, data + 8 * i, 8 * words);
        crc = streams_join(&s, words, 0);
        data += 24 * words;
    }
    return ~one_stream(crc, data, end);
}

/* The register of a message that folding has reduced to 128 bits. */
SCALAR_TARGET static inline uint32_t finish_fold(__m128i x) {
    uint64_t crc = _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(x));
    return (uint32_t)_mm_crc32_u64(crc, (uint64_t)_mm_extract_epi64(x, 1));
}

#define FOLD_CONSTANT(i) _mm_loadu_si128((const __m128i *)&crc32c_fold[i])

/* Moves x over the distance of constant k and adds it to y. */
SCALAR_TARGET static inline __m128i fold128(__m128i x, __m128i k, __m128i y) {
    __m128i low = _mm_clmulepi64_si128(x, k, 0x00);
    __m128i high = _mm_clmulepi64_si128(x, k, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), y);
}

static int runs_sse42(void) { return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"); }

const crc32c_kernel crc32c_kernel_sse42 = {"sse42", runs_sse42, checksum_sse42, product};

/* ---- 128 bits wide ---- */

#define FUSED_TARGET __attribute__((target("sse4.2,pclmul")))
#define FUSED_NAME(name) name##_pclmul
#define BLOCK_BYTES_MIN 1024
#define VECTOR __m128i
#define VECTOR_LOG 0
#define VECTOR_LOAD(p) _mm_loadu_si128((const __m128i *)(p))
#define VECTOR_REPEAT(x) (x)
#define VECTOR_START(crc) _mm_cvtsi32_si128((int)(crc))
#define VECTOR_XOR(x, y) _mm_xor_si128(x, y)
#define VECTOR_FOLD(x, k, y) fold128(x, k, y)
#define VECTOR_HALVE(x) (x)
#include "base/crc32c_x86_fused.h"

const crc32c_kernel crc32c_kernel_pclmul = {"pclmul", runs_sse42, checksum_pclmul, product};

/* ---- 256 bits wide ---- */

#define FUSED_TARGET __attribute__((target("sse4.2,pclmul,avx2,vpclmulqdq")))

FUSED_TARGET static inline __m256i fold256(__m256i x, __m256i k, __m256i y) {
    __m256i low = _mm256_clmulepi64_epi128(x, k, 0x00);
    __m256i high = _mm256_clmulepi64_epi128(x, k, 0x11);
    return _mm256_xor_si256(_mm256_xor_si256(low, high), y);
}

FUSED_TARGET static inline __m128i halve256(__m256i x) {
    return fold128(_mm256_castsi256_si128(x), FOLD_CONSTANT(0), _mm256_extracti128_si256(x, 1));
}

#define FUSED_NAME(name) name##_vpclmul
#define BLOCK_BYTES_MIN 704
#define VECTOR __m256i
#define VECTOR_LOG 1
#define VECTOR_LOAD(p) _mm256_loadu_si256((const __m256i *)(p))
#define VECTOR_REPEAT(x) _mm256_broadcastsi128_si256(x)
#define VECTOR_START(crc) _mm256_zextsi128_si256(_mm_cvtsi32_si128((int)(crc)))
#define VECTOR_XOR(x, y) _mm256_xor_si256(x, y)
#define VECTOR_FOLD(x, k, y) fold256(x, k, y)
#define VECTOR_HALVE(x) halve256(x)
#include "base/crc32c_x86_fused.h"

static int runs_vpclmul(void) {
    return runs_sse42() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq");
}

const crc32c_kernel crc32c_kernel_vpclmul = {"vpclmul", runs_vpclmul, checksum_vpclmul, product};

/* ---- 512 bits wide ---- */

#define FUSED_TARGET __attribute__((target("sse4.2,pclmul,avx2,vpclmulqdq,avx512f")))

FUSED_TARGET static inline __m512i fold512(__m512i x, __m512i k, __m512i y) {
    __m512i low = _mm512_clmulepi64_epi128(x, k, 0x00);
    __m512i high = _mm512_clmulepi64_epi128(x, k, 0x11);
    return _mm512_ternarylogic_epi64(low, high, y, 0x96); /* low ^ high ^ y */
}

FUSED_TARGET static inline __m128i halve512(__m512i x) {
    __m256i k = _mm256_broadcastsi128_si256(FOLD_CONSTANT(1));
    return halve256(fold256(_mm512_castsi512_si256(x), k, _mm512_extracti64x4_epi64(x, 1)));
}

#define FUSED_NAME(name) name##_avx512
#define BLOCK_BYTES_MIN 1056
#define VECTOR __m512i
#define VECTOR_LOG 2
#define VECTOR_LOAD(p) _mm512_loadu_si512(p)
#define VECTOR_REPEAT(x) _mm512_broadcast_i32x4(x)
#define VECTOR_START(crc) _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)(crc)))
#define VECTOR_XOR(x, y) _mm512_xor_si512(x, y)
#define VECTOR_FOLD(x, k, y) fold512(x, k, y)
#define VECTOR_HALVE(x) halve512(x)
#include "base/crc32c_x86_fused.h"

static int runs_avx512(void) { return runs_vpclmul() && __builtin_cpu_supports("avx512f"); }

const crc32c_kernel crc32c_kernel_avx512 = {"avx512", runs_avx512, checksum_avx512, product};

#else
typedef int crc32c_x86_is_empty;
#endif
