/* Layout of a record batch of magic 2 (KIP-98): byte positions of the header's fields. Cython reads these numbers
 * through `base/limits.pxd`, and Python finds them in `kraft_native.batch.batch`.
 */
#ifndef KRAFT_BATCH_LAYOUT_H
#define KRAFT_BATCH_LAYOUT_H

enum {
    BATCH_BASE_OFFSET = 0,
    BATCH_LENGTH = 8,
    BATCH_LEADER_EPOCH = 12,
    BATCH_MAGIC = 16,
    BATCH_CRC = 17,
    BATCH_ATTRIBUTES = 21,          /* the checksum covers all bytes from here */
    BATCH_LAST_OFFSET_DELTA = 23,
    BATCH_BASE_TIMESTAMP = 27,
    BATCH_MAX_TIMESTAMP = 35,
    BATCH_PRODUCER_ID = 43,
    BATCH_PRODUCER_EPOCH = 51,
    BATCH_BASE_SEQUENCE = 53,
    BATCH_RECORD_COUNT = 57,
    BATCH_HEADER_BYTES = 61,
    LOG_OVERHEAD_BYTES = 12,        /* base offset and length: the bytes before those that the length counts */
};

#endif
