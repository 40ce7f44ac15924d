"""Input of decisions about share groups beside the group: topics of the cluster, settings, the present time."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from kraft.broker.groups.consumer.cluster import GroupSettings, Topics
from kraft.structs import immutable
from kraft_native.base.errors import InvalidArgumentError

ASSIGNORS: Final = ("simple", "org.apache.kafka.coordinator.group.assignor.SimpleAssignor")
"""Names of the one assignor."""


@immutable
class RecordSettings:
    """Settings of a group for the delivery of records: its own, or the broker's. `auto_offset_reset` is as in
    `share.auto.offset.reset`."""

    lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    partition_locks_max: int = 2_000
    auto_offset_reset: str = "latest"
    reads_committed: bool = False
    may_renew: bool = True


@immutable
class ShareGroupConfig:
    """Broker settings of share groups. The defaults apply to groups that have no setting of their own, which the bounds
    limit."""

    max_size: int = 200
    initialize_retry_ms: int = 30_000
    defaults: GroupSettings = field(default_factory=GroupSettings)
    session_bounds_ms: tuple[int, int] = (45_000, 60_000)
    heartbeat_bounds_ms: tuple[int, int] = (5_000, 15_000)
    assignment_bounds_ms: tuple[int, int] = (0, 15_000)
    records: RecordSettings = field(default_factory=RecordSettings)
    lock_duration_bounds_ms: tuple[int, int] = (15_000, 60_000)
    delivery_count_bounds: tuple[int, int] = (2, 10)
    partition_locks_bounds: tuple[int, int] = (100, 4_000)


@immutable
class ShareCluster:
    """Input of a decision. `has_coordinators`: there is a way to the share coordinators."""

    topics: Topics
    config: ShareGroupConfig
    settings: GroupSettings
    now_ms: int
    has_coordinators: bool


def check_assignors(listed: object) -> None:
    """Check a value of `group.share.assignors`. Raises `InvalidArgumentError` when it names another assignor, or
    none."""
    unknown = [str(each) for each in listed if each not in ASSIGNORS] if isinstance(listed, list | tuple) else []
    if unknown or not listed:
        raise InvalidArgumentError(f"group.share.assignors: {', '.join(unknown) or 'nothing'} is not supported: it is "
                                   f"{ASSIGNORS[0]}")
