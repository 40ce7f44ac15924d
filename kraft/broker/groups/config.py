"""Broker settings of the group coordinator, with Kafka's names (except dots and units) and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from kraft.broker.groups.consumer.cluster import ConsumerGroupConfig, GroupSettings
from kraft.broker.groups.share.cluster import RecordSettings, ShareGroupConfig
from kraft.broker.groups.streams.cluster import StreamsGroupConfig, StreamsSettings
from kraft.structs import immutable

READ_UNCOMMITTED: Final = "read_uncommitted"
# A group's own session time-out, heartbeat interval and assignment interval.
_CONSUMER_TIMES: Final = (
    "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "consumer.assignment.interval.ms")
_SHARE_TIMES: Final = ("share.session.timeout.ms", "share.heartbeat.interval.ms", "share.assignment.interval.ms")
_STREAMS_TIMES: Final = (
    "streams.session.timeout.ms", "streams.heartbeat.interval.ms", "streams.assignment.interval.ms")


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
    share: ShareGroupConfig = field(default_factory=ShareGroupConfig)
    streams: StreamsGroupConfig = field(default_factory=StreamsGroupConfig)


def settings_of(config: ConsumerGroupConfig, overrides: Mapping[str, str]) -> GroupSettings:
    """Return the settings of a consumer group; `overrides` are its own, as texts. One outside of the broker's limits
    counts as the nearest that is within."""
    return _group_settings(config, config.defaults, overrides, _CONSUMER_TIMES)


def share_settings_of(config: ShareGroupConfig, overrides: Mapping[str, str]) -> GroupSettings:
    """Return the settings of a share group, like `settings_of`."""
    return _group_settings(config, config.defaults, overrides, _SHARE_TIMES)


def streams_settings_of(config: StreamsGroupConfig, overrides: Mapping[str, str]) -> StreamsSettings:
    """Return the settings of a streams group, like `settings_of`."""
    defaults = config.defaults
    if not overrides:
        return defaults
    return StreamsSettings(
        _group_settings(config, defaults.common, overrides, _STREAMS_TIMES),
        _chosen(overrides, "streams.num.standby.replicas", defaults.standby_replicas, (0, config.standby_replicas_max)),
        _chosen(overrides, "streams.initial.rebalance.delay.ms", defaults.initial_delay_ms, (0, 2**31 - 1)))


def record_settings_of(config: ShareGroupConfig, overrides: Mapping[str, str]) -> RecordSettings:
    """Return the settings of a share group for the delivery of records, like `settings_of`."""
    if not overrides:
        return config.records
    defaults = config.records
    return RecordSettings(
        _chosen(overrides, "share.record.lock.duration.ms", defaults.lock_duration_ms, config.lock_duration_bounds_ms),
        _chosen(overrides, "share.delivery.count.limit", defaults.delivery_count_limit, config.delivery_count_bounds),
        _chosen(overrides, "share.partition.max.record.locks", defaults.partition_locks_max,
                config.partition_locks_bounds),
        overrides.get("share.auto.offset.reset", defaults.auto_offset_reset),
        overrides.get("share.isolation.level", READ_UNCOMMITTED) != READ_UNCOMMITTED,
        overrides.get("share.renew.acknowledge.enable", "true").lower() == "true")


def _group_settings(config: ConsumerGroupConfig | ShareGroupConfig | StreamsGroupConfig, defaults: GroupSettings,
                    overrides: Mapping[str, str], names: tuple[str, str, str]) -> GroupSettings:
    if not overrides:
        return defaults
    session_timeout, heartbeat_interval, assignment_interval = names
    return GroupSettings(
        _chosen(overrides, session_timeout, defaults.session_timeout_ms, config.session_bounds_ms),
        _chosen(overrides, heartbeat_interval, defaults.heartbeat_interval_ms, config.heartbeat_bounds_ms),
        _chosen(overrides, assignment_interval, defaults.assignment_interval_ms, config.assignment_bounds_ms))


def _chosen(overrides: Mapping[str, str], name: str, default: int, bounds: tuple[int, int]) -> int:
    text = overrides.get(name, "")
    return min(max(int(text), bounds[0]), bounds[1]) if text.isdecimal() else default
