"""The metadata log's directory: its names, and the settings of the log in it."""

from typing import Final, Literal
from uuid import UUID

from kraft.structs import immutable
from kraft_native.segment.config import LogConfig

DIRECTORY_NAME: Final = "__cluster_metadata-0"
START_MARK: Final = ".kraft-metadata-log"
"""File beside the directory; see `kraft.runtime.quorum.start_mark`."""
VOTER_MARK: Final = ".kraft-voter"
"""File in the node's other log directories; see `kraft.runtime.quorum.start_mark`."""
TOPIC_ID: Final = UUID(int=1)
BATCH_BYTES_MAX: Final = 8 << 20
"""Size limit of Kafka's readers for a batch."""


@immutable
class MetadataLogSettings:
    """Settings of the metadata log.

    Kafka's names are `metadata.log.segment.bytes`, `metadata.log.segment.ms`,
    `metadata.log.max.record.bytes.between.snapshots`, `metadata.log.max.snapshot.interval.ms` (0: never by time),
    `metadata.max.retention.bytes` and `metadata.max.retention.ms` (-1: no limit). `strained_...` are ours:
    `kraft.snapshot.strained.bytes` and `.interval.ms`.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    snapshot_bytes: int = 20 << 20
    snapshot_interval_ms: int = 3_600_000
    strained_snapshot_bytes: int = 80 << 20
    strained_snapshot_interval_ms: int = 14_400_000
    retention_bytes: int = 100 << 20
    retention_ms: int = 604_800_000
    durability: Literal["page-cache", "group-commit", "per-append"] = "group-commit"

    def log_config(self) -> LogConfig:
        return LogConfig(
            segment_bytes=self.segment_bytes, segment_ms=self.segment_ms, max_message_bytes=BATCH_BYTES_MAX,
            retention_bytes=-1, retention_ms=-1, cleanup_policy="delete", durability=self.durability,
            crash_damage="cut",
            flush_interval_us=0, message_timestamp_before_max_ms=(1 << 63) - 1,
            message_timestamp_after_max_ms=(1 << 63) - 1)
