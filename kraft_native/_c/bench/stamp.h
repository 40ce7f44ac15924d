/* The stamp of a batch: 8 bytes at the begin of its first value, with the time at which the batch was due. Numbers of
 * messages and batches are big-endian. */
#ifndef KRAFT_STAMP_H
#define KRAFT_STAMP_H

#include "base/batch_layout.h"

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void store_be32(uint8_t *to, uint32_t value) {
    value = htobe32(value);
    memcpy(to, &value, sizeof value);
}

static inline void store_be64(uint8_t *to, uint64_t value) {
    value = htobe64(value);
    memcpy(to, &value, sizeof value);
}

static inline uint32_t load_be32(const uint8_t *from) {
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return be32toh(value);
}

static inline uint64_t load_be64(const uint8_t *from) {
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return be64toh(value);
}

/* Reads a varint at `*at`, which moves behind it. Past the end, or without an end, 0 with `*at` set to `end`. */
static inline int64_t take_varint(const uint8_t **at, const uint8_t *end) {
    uint64_t value = 0;
    for (int shift = 0; *at < end && shift < 64; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
        }
    }
    *at = end;
    return 0;
}

/* Finds the stamp: the first 8 bytes of the first record's value. NULL for a batch without one. */
static inline const uint8_t *find_stamp(const uint8_t *batch, size_t batch_bytes) {
    const uint8_t *at = batch + BATCH_HEADER_BYTES, *end = batch + batch_bytes;
    if (batch_bytes < BATCH_HEADER_BYTES || (batch[BATCH_ATTRIBUTES + 1] & 0x27) != 0) {
        return NULL;        /* compressed, or a control batch */
    }
    take_varint(&at, end);  /* the record's length */
    at += at < end;         /* its attributes */
    take_varint(&at, end);  /* timestamp and offset */
    take_varint(&at, end);
    int64_t key_bytes = take_varint(&at, end);
    if (key_bytes > end - at) {
        return NULL;
    }
    at += key_bytes > 0 ? key_bytes : 0;
    return take_varint(&at, end) >= 8 && end - at >= 8 ? at : NULL;
}

#endif
