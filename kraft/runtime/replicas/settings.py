"""Settings of this node's replicas: resolved from the metadata, and changed in slices while the replicas are served."""

import asyncio
import time
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from kraft.broker.broker import Broker
from kraft.broker.log_settings import LogSettings, log_settings
from kraft.broker.throttles import throttled_partitions
from kraft.metadata.image import PartitionRegistration
from kraft.runtime.base.time_slices import SLICE_SECONDS
from kraft_native.partition.partition import Partition
from kraft_native.request.replication_quota import ReplicationQuota

SETTINGS_KEPT_MAX: Final = 1_000


class TopicSettings(NamedTuple):
    """Settings of a topic's partitions."""

    log: LogSettings
    min_insync_replicas: int
    leader_throttled: Container[int]
    follower_throttled: Container[int]


class ReplicaSettings:
    """Settings of all local replicas. Loop thread only."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        # Keyed by the topic's own settings: resolving some thirty settings takes longer than creating a log.
        self._known: dict[tuple[frozenset[tuple[str, str]], bool], TopicSettings] = {}
        number = broker.config.integer
        samples, sample_ms = (number("replication.quota.window.num"),
                              1000 * number("replication.quota.window.size.seconds"))
        self._leader_quota = ReplicationQuota(samples=samples, sample_ms=sample_ms)
        self._follower_quota = ReplicationQuota(samples=samples, sample_ms=sample_ms)

    def of(self, topic: str, registration: PartitionRegistration) -> TopicSettings:
        """Return the settings in force for a replica."""
        overrides = self._broker.topic_overrides(topic)
        replicated = len(registration.replicas) > 1
        key = frozenset(overrides.items()), replicated
        if (found := self._known.get(key)) is None:
            if len(self._known) >= SETTINGS_KEPT_MAX:
                self._known.clear()
            found = self._known[key] = self._resolved(topic, overrides, replicated=replicated)
        self._broker.faults.note(f"topic {topic}", tuple(map(str, found.log.faults)))
        return found

    def throttle(self, partition: Partition, settings: TopicSettings) -> None:
        """Set the quotas of a throttled replica."""
        partition.throttle(self._leader_quota if partition.index in settings.leader_throttled else None,
                           self._follower_quota if partition.index in settings.follower_throttled else None)

    def reconfigure(self, topics: Iterable[str]) -> None:
        """Apply changed settings of these topics, or of what they fall back to. Work that exceeds one slice continues
        in later iterations of the loop."""
        self._known.clear()
        self._reconfigure_some(self._stale(topics))

    def reconfigure_throttles(self) -> None:
        """Apply the rates at which throttled replicas are copied, which may have changed."""
        self._leader_quota.set_rate(self._broker.integer("leader.replication.throttled.rate"))
        self._follower_quota.set_rate(self._broker.integer("follower.replication.throttled.rate"))

    def forget_faults(self, topic: str, index: int) -> None:
        """Drop the faults of a removed replica, and of a topic without local replicas."""
        self._broker.faults.forget(_subject(topic, index))
        found = self._broker.image.topic(topic)
        if found is None or not any(self._broker.node_id in each.replicas for each in found.partitions.values()):
            self._broker.faults.forget(f"topic {topic}")

    def _stale(self, topics: Iterable[str]) -> Iterator[tuple[Partition, TopicSettings]]:
        """Partitions of `topics` with their settings. Resolved one by one, because the metadata may change between two
        of them."""
        for name in topics:
            image = self._broker.image.topic(name)
            for index in () if image is None else list(image.partitions):
                registration, partition = self._broker.image.partition(name, index), self._broker.table.get(name, index)
                if registration is not None and partition is not None and not partition.log.closed:
                    yield partition, self.of(name, registration)

    def _reconfigure_some(self, stale: Iterator[tuple[Partition, TopicSettings]]) -> None:
        until = time.monotonic() + SLICE_SECONDS
        for partition, settings in stale:
            self._reconfigure(partition, settings)
            if time.monotonic() >= until:
                asyncio.get_running_loop().call_soon(self._reconfigure_some, stale)
                return

    def _reconfigure(self, partition: Partition, settings: TopicSettings) -> None:
        """Apply settings to one partition. A log that cannot have them keeps its current ones; a disk that fails here
        is fenced by its own failure."""
        def apply() -> None:
            partition.set_min_insync_replicas(settings.min_insync_replicas)
            self.throttle(partition, settings)
            partition.reconfigure(settings.log.over(partition.log.config))

        self._broker.faults.attempt(_subject(partition.topic, partition.index), apply)

    def _resolved(self, topic: str, overrides: Mapping[str, str], *, replicated: bool) -> TopicSettings:
        minimum = self._broker.topic_setting(topic, "min.insync.replicas")
        assert isinstance(minimum, int)
        return TopicSettings(
            log_settings(overrides, self._broker.layers(), replicated=replicated), minimum,
            self._throttled(topic, "leader.replication.throttled.replicas"),
            self._throttled(topic, "follower.replication.throttled.replicas"))

    def _throttled(self, topic: str, setting: str) -> Container[int]:
        value = self._broker.topic_setting(topic, setting)
        assert isinstance(value, list)
        return throttled_partitions(value, self._broker.node_id)


def _subject(topic: str, index: int) -> str:
    return f"partition {topic}-{index}"
