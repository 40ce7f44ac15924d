"""Fields of the settings of one log.

Made by tools/log_fields.py from log_settings.json: change that.
"""

from typing import Literal, TypedDict, type_check_only

from typing_extensions import disjoint_base

@type_check_only
class LogSettings(TypedDict, total=False):
    """The settings of `LogConfig` by name, for type checkers."""

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

@disjoint_base
class LogFields:
    @property
    def segment_bytes(self) -> int: ...
    @property
    def segment_ms(self) -> int: ...
    @property
    def segment_jitter_ms(self) -> int: ...
    @property
    def segment_index_bytes(self) -> int: ...
    @property
    def index_interval_bytes(self) -> int: ...
    @property
    def retention_bytes(self) -> int: ...
    @property
    def retention_ms(self) -> int: ...
    @property
    def max_message_bytes(self) -> int: ...
    @property
    def message_timestamp_before_max_ms(self) -> int: ...
    @property
    def message_timestamp_after_max_ms(self) -> int: ...
    @property
    def message_timestamp_type(self) -> str: ...
    @property
    def cleanup_policy(self) -> str: ...
    @property
    def compression_type(self) -> str: ...
    @property
    def compression_gzip_level(self) -> int: ...
    @property
    def compression_lz4_level(self) -> int: ...
    @property
    def compression_zstd_level(self) -> int: ...
    @property
    def delete_retention_ms(self) -> int: ...
    @property
    def min_compaction_lag_ms(self) -> int: ...
    @property
    def max_compaction_lag_ms(self) -> int: ...
    @property
    def min_cleanable_dirty_ratio(self) -> float: ...
    @property
    def durability(self) -> str: ...
    @property
    def crash_damage(self) -> str: ...
    @property
    def flush_bytes(self) -> int: ...
    @property
    def flush_interval_us(self) -> int: ...
    @property
    def high_watermark(self) -> str: ...
    @property
    def decompressed_bytes_max(self) -> int: ...
    @property
    def decompress_ratio_max(self) -> int: ...
    @property
    def producer_id_expiration_ms(self) -> int: ...
