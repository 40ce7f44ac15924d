"""Input of decisions about consumer groups beside the group: topics of the cluster, settings, the present time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import Protocol
from uuid import UUID

from kraft.structs import immutable


class Topics(Protocol):
    """Topics of the cluster. See `TopicView`."""

    def topic_id(self, name: str) -> UUID | None:
        """Return the id of a topic; None when it does not exist."""

    def topic_name(self, topic_id: UUID) -> str | None:
        """Return the name of a topic; None when it does not exist."""

    def partition_count(self, topic: str) -> int | None:
        """Return the number of partitions of a topic; None when it does not exist."""

    def topic_hash(self, topic: str) -> int | None:
        """Return the hash of a topic's metadata (`hashing`); None when it does not exist."""

    def topic_names(self) -> Collection[str]:
        """Return the names of all topics."""

    @property
    def version(self) -> object:
        """An object that is another one after every change of a topic, or of the racks of brokers."""

    @property
    def names_version(self) -> object:
        """An object that is another one after a topic was created or deleted."""

    @property
    def offset(self) -> int:
        """Offset of the metadata log up to which the changes are known."""

    def group_config(self, group_id: str) -> Mapping[str, str]:
        """Return the settings of a group that are its own, as texts."""


@immutable
class GroupSettings:
    """Settings of one group: its own, or the broker's."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000


@immutable
class ConsumerGroupConfig:
    """Broker settings of consumer groups. `assignors` are the names in `group.consumer.assignors`; the first is the
    default. `defaults` apply to groups that have no setting of their own, which the bounds limit."""

    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    migration_policy: str = "bidirectional"
    regex_refresh_interval_ms: int = 600_000
    defaults: GroupSettings = field(default_factory=GroupSettings)
    session_bounds_ms: tuple[int, int] = (45_000, 60_000)
    heartbeat_bounds_ms: tuple[int, int] = (5_000, 15_000)
    assignment_bounds_ms: tuple[int, int] = (0, 15_000)

    @property
    def may_mix(self) -> bool:
        """True when a consumer group may have classic members."""
        return self.migration_policy != "disabled"

    @property
    def may_upgrade(self) -> bool:
        """True when a classic group may become a consumer group while it has members."""
        return self.migration_policy in ("upgrade", "bidirectional")

    @property
    def may_downgrade(self) -> bool:
        """True when a consumer group may become a classic group while it has members."""
        return self.migration_policy in ("downgrade", "bidirectional")


@immutable
class Cluster:
    """Input of a decision. `new_member_id` creates the id of a member that has none."""

    topics: Topics
    config: ConsumerGroupConfig
    settings: GroupSettings
    now_ms: int
    new_member_id: Callable[[], str]


@immutable
class Origin:
    """Origin of a request. `client_host` is in Kafka's form: `/127.0.0.1`."""

    api_version: int
    client_id: str
    client_host: str
