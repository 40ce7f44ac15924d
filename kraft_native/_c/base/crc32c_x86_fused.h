/* One kernel of crc32c_x86.c, included there once per vector width; the macros it needs are defined before each
 * inclusion and undefined at the end of this file.
 *
 * A block of the message is cut in two parts. The first is folded: four vectors walk over it, each moved over the
 * distance of all four by two multiplications and added to the bytes there. At the end four vectors are left that have
 * the remainder of the whole part. The second part is three streams for the crc32 instruction. Both advance in the same
 * loop, STREAM_WORDS words per stream for one step of the fold. With 4 or less the multiplier is the bottleneck, with 7
 * or more the instruction; measured where a vector multiplication can start every other cycle.
 */

#define VECTOR_BYTES (16u << VECTOR_LOG)
#define FOLD_BYTES (4 * VECTOR_BYTES)
#define STREAM_WORDS 6
#define ROUND_BYTES (FOLD_BYTES + 24 * STREAM_WORDS)
#define ROUNDS_MAX (CRC32C_STREAM_WORDS_MAX / STREAM_WORDS - ROUND_BYTES / (24 * STREAM_WORDS) - 1)

_Static_assert(ROUNDS_MAX * STREAM_WORDS + ROUND_BYTES / 24 <= CRC32C_STREAM_WORDS_MAX, "too long a stream");

/* Checksums one block: 4 vectors, `rounds` rounds, and streams that are `words` words long in all. */
FUSED_TARGET static inline uint32_t FUSED_NAME(block)(uint32_t crc, const uint8_t *p, size_t rounds, size_t words) {
    const uint8_t *streams_start = p + FOLD_BYTES * (rounds + 1);
    size_t stride = 8 * words;
    VECTOR x[4];
    for (size_t i = 0; i < 4; i++) x[i] = VECTOR_LOAD(p + i * VECTOR_BYTES);
    x[0] = VECTOR_XOR(x[0], VECTOR_START(crc));
    VECTOR by_four = VECTOR_REPEAT(FOLD_CONSTANT(VECTOR_LOG + 2));
    const uint8_t *word = streams_start;
    streams s = {{0, 0, 0}};
    for (size_t round = 0; round < rounds; round++) {
        p += FOLD_BYTES;
        for (size_t i = 0; i < 4; i++) x[i] = VECTOR_FOLD(x[i], by_four, VECTOR_LOAD(p + i * VECTOR_BYTES));
        for (int i = 0; i < STREAM_WORDS; i++, word += 8) streams_step(&s, word, stride);
    }
    for (; word < streams_start + stride; word += 8) streams_step(&s, word, stride);
    VECTOR by_one = VECTOR_REPEAT(FOLD_CONSTANT(VECTOR_LOG));
    VECTOR by_two = VECTOR_REPEAT(FOLD_CONSTANT(VECTOR_LOG + 1));
    VECTOR one = VECTOR_FOLD(VECTOR_FOLD(x[0], by_one, x[1]), by_two, VECTOR_FOLD(x[2], by_one, x[3]));
    uint32_t folded = finish_fold(VECTOR_HALVE(one));
    return streams_join(&s, words, word_product(folded, crc32c_shift[3 * words]));
}

/* Not inlined: short input must not pay for the registers that this saves. */
FUSED_TARGET __attribute__((noinline)) static uint32_t FUSED_NAME(blocks)(uint32_t seed, const uint8_t *data,
                                                                          size_t size) {
    uint32_t crc = ~seed;
    while (size >= BLOCK_BYTES_MIN) {
        size_t rounds = (size - FOLD_BYTES) / ROUND_BYTES;
        size_t words;
        if (rounds > ROUNDS_MAX) {
            rounds = ROUNDS_MAX;
            words = rounds * STREAM_WORDS;
        } else {
            words = (size - FOLD_BYTES * (rounds + 1)) / 24; /* leaves less than 24 bytes */
        }
        crc = FUSED_NAME(block)(crc, data, rounds, words);
        size_t done = FOLD_BYTES * (rounds + 1) + 24 * words;
        data += done;
        size -= done;
    }
    return checksum_sse42(~crc, data, size);
}

SCALAR_TARGET static uint32_t FUSED_NAME(checksum)(uint32_t seed, const uint8_t *data, size_t size) {
    return size < BLOCK_BYTES_MIN ? checksum_sse42(seed, data, size) : FUSED_NAME(blocks)(seed, data, size);
}

#undef VECTOR_BYTES
#undef FOLD_BYTES
#undef STREAM_WORDS
#undef ROUND_BYTES
#undef ROUNDS_MAX
#undef BLOCK_BYTES_MIN
#undef FUSED_TARGET
#undef FUSED_NAME
#undef VECTOR
#undef VECTOR_LOG
#undef VECTOR_LOAD
#undef VECTOR_REPEAT
#undef VECTOR_START
#undef VECTOR_XOR
#undef VECTOR_FOLD
#undef VECTOR_HALVE
