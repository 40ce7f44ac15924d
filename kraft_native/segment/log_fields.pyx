"""Fields of the settings of one log.

Made by tools/log_fields.py from log_settings.json: change that.
"""

cdef class LogFields:
    cdef int fill(self, dict value) except -1:
        """Set each field to the value of its name."""
        self.segment_bytes = value["segment_bytes"]
        self.segment_ms = value["segment_ms"]
        self.segment_jitter_ms = value["segment_jitter_ms"]
        self.segment_index_bytes = value["segment_index_bytes"]
        self.index_interval_bytes = value["index_interval_bytes"]
        self.retention_bytes = value["retention_bytes"]
        self.retention_ms = value["retention_ms"]
        self.max_message_bytes = value["max_message_bytes"]
        self.message_timestamp_before_max_ms = value["message_timestamp_before_max_ms"]
        self.message_timestamp_after_max_ms = value["message_timestamp_after_max_ms"]
        self.message_timestamp_type = value["message_timestamp_type"]
        self.cleanup_policy = value["cleanup_policy"]
        self.compression_type = value["compression_type"]
        self.compression_gzip_level = value["compression_gzip_level"]
        self.compression_lz4_level = value["compression_lz4_level"]
        self.compression_zstd_level = value["compression_zstd_level"]
        self.delete_retention_ms = value["delete_retention_ms"]
        self.min_compaction_lag_ms = value["min_compaction_lag_ms"]
        self.max_compaction_lag_ms = value["max_compaction_lag_ms"]
        self.min_cleanable_dirty_ratio = value["min_cleanable_dirty_ratio"]
        self.durability = value["durability"]
        self.crash_damage = value["crash_damage"]
        self.flush_bytes = value["flush_bytes"]
        self.flush_interval_us = value["flush_interval_us"]
        self.high_watermark = value["high_watermark"]
        self.decompressed_bytes_max = value["decompressed_bytes_max"]
        self.decompress_ratio_max = value["decompress_ratio_max"]
        self.producer_id_expiration_ms = value["producer_id_expiration_ms"]
        return 0
