"""Fields of the settings of one log.

Made by tools/log_fields.py from log_settings.json: change that.
"""

from libc.stdint cimport int64_t


cdef class LogFields:
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

    cdef int fill(self, dict value) except -1
