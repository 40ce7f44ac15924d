"""The settings of one log, for type checkers.

Made by tools/log_fields.py from log_settings.json: change that.
"""

from typing import Literal, TypedDict


class LogSettings(TypedDict, total=False):
    """The settings of `LogConfig` by name."""

    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    retention_bytes: int
    retention_ms: int
    max_message_bytes: int
    message_timestamp_before_max_ms: int
    message_timestamp_after_max_ms: int
    message_timestamp_type: Literal["CreateTime", "LogAppendTime"]
    cleanup_policy: Literal["compact", "delete", "compact,delete", "delete,compact"]
    compression_type: Literal["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    delete_retention_ms: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    min_cleanable_dirty_ratio: float
    durability: Literal["page-cache", "group-commit", "per-append"]
    crash_damage: Literal["keep", "cut"]
    flush_bytes: int
    flush_interval_us: int
    high_watermark: Literal["auto", "manual"]
    decompressed_bytes_max: int
    decompress_ratio_max: int
    producer_id_expiration_ms: int
