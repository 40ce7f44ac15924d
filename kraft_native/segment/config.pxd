"""Settings of one log, typed and checked. Immutable; a running log gets a whole new one."""

from libc.stdint cimport int8_t, int32_t, int64_t

from kraft_native.batch.validate cimport ValidateOptions


cdef enum Durability:
    DURABILITY_PAGE_CACHE = 0
    DURABILITY_GROUP_COMMIT = 1
    DURABILITY_PER_APPEND = 2


cdef class LogConfig:
    cdef readonly int64_t segment_bytes
    cdef readonly int64_t segment_ms
    cdef readonly int64_t segment_jitter_ms
    cdef readonly int64_t segment_index_bytes
    cdef readonly int64_t index_interval_bytes
    cdef readonly int64_t retention_bytes
    cdef readonly int64_t retention_ms
    cdef readonly int64_t max_message_bytes
    cdef readonly int64_t message_timestamp_before_max_ms
    cdef readonly int64_t message_timestamp_after_max_ms
    cdef readonly str message_timestamp_type
    cdef readonly str cleanup_policy
    cdef readonly str compression_type
    cdef readonly int64_t compression_gzip_level
    cdef readonly int64_t compression_lz4_level
    cdef readonly int64_t compression_zstd_level
    cdef readonly int64_t delete_retention_ms
    cdef readonly int64_t min_compaction_lag_ms
    cdef readonly int64_t max_compaction_lag_ms
    cdef readonly double min_cleanable_dirty_ratio
    cdef readonly str durability
    cdef readonly str crash_damage
    cdef readonly int64_t flush_bytes
    cdef readonly int64_t flush_interval_us
    cdef readonly str high_watermark
    cdef readonly int64_t decompressed_bytes_max
    cdef readonly int64_t decompress_ratio_max
    cdef readonly int64_t producer_id_expiration_ms
    # Derived once.
    cdef int64_t index_bytes_max   # segment_index_bytes, or the minimum of an index
    cdef Durability durability_kind
    cdef bint compact              # cleanup.policy contains `compact`: keys required, offset gaps are normal
    cdef bint delete               # cleanup.policy contains `delete`
    cdef bint high_watermark_auto
    cdef ValidateOptions validation   # now_ms and origin are set per append

    cdef int derive(self) except -1
    cdef int32_t level(self) except? -1
