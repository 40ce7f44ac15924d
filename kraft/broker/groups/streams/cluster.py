"""Input of decisions about streams groups beside the group: topics of the cluster, settings, the present time."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from kraft.broker.groups.consumer.cluster import GroupSettings, Topics
from kraft.structs import immutable

STANDBY_REPLICAS: Final = "num.standby.replicas"
"""Name of the one setting of the assignor in the record of a group."""


@immutable
class StreamsSettings:
    """Settings of one group: its own, or the broker's."""

    common: GroupSettings = field(default_factory=GroupSettings)
    standby_replicas: int = 0
    initial_delay_ms: int = 3_000

    @property
    def assignment_configs(self) -> tuple[tuple[str, str], ...]:
        """Settings of the assignor as a group's record has them."""
        return ((STANDBY_REPLICAS, str(self.standby_replicas)),)


@immutable
class StreamsGroupConfig:
    """Broker settings of streams groups. `defaults` apply to groups that have no setting of their own, which the bounds
    limit."""

    max_size: int = 2**31 - 1
    defaults: StreamsSettings = field(default_factory=StreamsSettings)
    session_bounds_ms: tuple[int, int] = (45_000, 60_000)
    heartbeat_bounds_ms: tuple[int, int] = (5_000, 15_000)
    assignment_bounds_ms: tuple[int, int] = (0, 15_000)
    standby_replicas_max: int = 2


@immutable
class StreamsCluster:
    """Input of a decision."""

    topics: Topics
    config: StreamsGroupConfig
    settings: StreamsSettings
    now_ms: int
