"""Broker settings of the group coordinator, with Kafka's names (except dots and units) and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from kraft.broker.groups.consumer.cluster import ConsumerGroupConfig, GroupSettings
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
    consumer: ConsumerGroupConfig = field(default_factory=ConsumerGroupConfig)


def settings_of(config: ConsumerGroupConfig, overrides: Mapping[str, str]) -> GroupSettings:
    """Return the settings of a group; `overrides` are its own, as texts. One outside of the broker's limits counts as
    the nearest that is within."""
    if not overrides:
        return config.defaults

    def chosen(name: str, default: int, bounds: tuple[int, int]) -> int:
        text = overrides.get(name, "")
        return min(max(int(text), bounds[0]), bounds[1]) if text.isdecimal() else default

    return GroupSettings(
        chosen("consumer.session.timeout.ms", config.defaults.session_timeout_ms, config.session_bounds_ms),
        chosen("consumer.heartbeat.interval.ms", config.defaults.heartbeat_interval_ms, config.heartbeat_bounds_ms),
        chosen("consumer.assignment.interval.ms", config.defaults.assignment_interval_ms, config.assignment_bounds_ms))
