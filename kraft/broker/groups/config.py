"""Broker settings of the group coordinator, with Kafka's names (except dots and units) and defaults."""

from __future__ import annotations

from kraft.immutable import immutable


@immutable
class GroupCoordinatorConfig:
    """Settings of the group coordinator. To change one at runtime, replace the whole (`GroupCoordinator.config`)."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000          # offsets.retention.minutes
    offsets_retention_check_interval_ms: int = 600_000
    offset_commit_timeout_ms: int = 5_000                   # offsets.commit.timeout.ms
    new_member_join_timeout_ms: int = 300_000               # no setting in Kafka: a new member's first rebalance
