"""Broker settings of the share coordinator, with Kafka's names (except dots and units) and defaults."""

from __future__ import annotations

from kraft.structs import immutable


@immutable
class ShareCoordinatorConfig:
    """Settings of the share coordinator. To change one at runtime, replace the whole."""

    updates_per_snapshot: int = 500         # share.coordinator.snapshot.update.records.per.snapshot
    commit_timeout_ms: int = 5_000          # share.coordinator.write.timeout.ms
    cold_interval_ms: int = 300_000         # share.coordinator.cold.partition.snapshot.interval.ms
    prune_interval_ms: int = 300_000        # share.coordinator.state.topic.prune.interval.ms
