"""Compile-time constants of Kafka's file and batch formats (`wire.md` section 2; KIP-98 for the batch)."""

cdef extern from "base/batch_layout.h" nogil:
    # Byte positions of the fields of a batch's header.
    enum:
        BATCH_BASE_OFFSET
        BATCH_LENGTH
        BATCH_LEADER_EPOCH
        BATCH_MAGIC
        BATCH_CRC
        BATCH_ATTRIBUTES
        BATCH_LAST_OFFSET_DELTA
        BATCH_BASE_TIMESTAMP
        BATCH_MAX_TIMESTAMP
        BATCH_PRODUCER_ID
        BATCH_PRODUCER_EPOCH
        BATCH_BASE_SEQUENCE
        BATCH_RECORD_COUNT
        BATCH_HEADER_BYTES
        LOG_OVERHEAD_BYTES

cdef enum:
    # The smallest batch length any magic may carry (Kafka's LegacyRecord.RECORD_OVERHEAD_V0).
    BATCH_LENGTH_MIN_ANY_MAGIC = 14
    MAGIC_CURRENT = 2

    # Batch attributes.
    ATTR_CODEC_MASK = 0x07
    ATTR_LOG_APPEND_TIME = 0x08
    ATTR_TRANSACTIONAL = 0x10
    ATTR_CONTROL = 0x20
    ATTR_DELETE_HORIZON = 0x40

    CODEC_NONE = 0
    CODEC_GZIP = 1
    CODEC_SNAPPY = 2
    CODEC_LZ4 = 3
    CODEC_ZSTD = 4

    # Control record types (the int16 after the int16 version in a control record's key).
    CONTROL_ABORT = 0
    CONTROL_COMMIT = 1
    CONTROL_LEADER_CHANGE = 2
    CONTROL_SNAPSHOT_HEADER = 3
    CONTROL_SNAPSHOT_FOOTER = 4
    CONTROL_KRAFT_VERSION = 5
    CONTROL_KRAFT_VOTERS = 6

    TIMESTAMP_CREATE_TIME = 0
    TIMESTAMP_LOG_APPEND_TIME = 1

    NO_PRODUCER_ID = -1
    NO_PRODUCER_EPOCH = -1
    NO_SEQUENCE = -1
    NO_TIMESTAMP = -1
    NO_LEADER_EPOCH = -1

    # One signed int32 varint takes at most 5 bytes, an int64 one at most 10.
    VARINT_BYTES_MAX = 5
    VARLONG_BYTES_MAX = 10
    # The smallest record: length, attributes, two deltas, null key, null value, no headers.
    RECORD_BYTES_MIN = 7

    # Index file entries.
    OFFSET_INDEX_ENTRY_BYTES = 8
    TIME_INDEX_ENTRY_BYTES = 12
    TXN_INDEX_ENTRY_BYTES = 34

    # Producer state.
    PRODUCER_BATCHES_KEPT = 5

cdef enum:
    SEGMENT_BYTES_MAX = 0x7FFFFFFF
    INT32_MAX_VALUE = 0x7FFFFFFF
