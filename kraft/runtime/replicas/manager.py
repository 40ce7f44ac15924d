"""Apply the metadata of this node's replicas: open and remove logs, install roles and settings."""

import asyncio
import errno
import logging
import os
import time
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from kraft.broker.broker import Broker
from kraft.broker.internal_topics import OFFSETS_TOPIC
from kraft.broker.log_settings import LogSettings, log_settings
from kraft.broker.replica_plan import Action, Step, plan_one
from kraft.broker.throttles import throttled_partitions
from kraft.log_dir import LogDir, TopicPartition
from kraft.metadata.image import MetadataImage, PartitionRegistration
from kraft.runtime.base.time_slices import SLICE_SECONDS
from kraft.runtime.replicas.dir_reports import Directories
from kraft.runtime.replicas.group_driver import GroupDriver
from kraft.runtime.replicas.moves import ReplicaMoves, failure_in
from kraft.runtime.replicas.replication import Replication
from kraft.runtime.replicas.retries import Retries
from kraft.runtime.storage.log_manager import LogManager
from kraft.steps import finish
from kraft_native.base.errors import KraftError, StorageError
from kraft_native.partition.partition import Partition
from kraft_native.request.replication_quota import ReplicationQuota

log = logging.getLogger(__name__)

# The files of a deleted topic are removed at once: no other process can hold them open.
REMOVE_DELAY_SECONDS: Final = 0.0
SETTINGS_KEPT_MAX: Final = 1_000
# Resources that a machine may lack for a while.
RESOURCE_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
# Errors that concern one name in a directory, and not the directory. `DirectoryWatch` finds a directory that is
# missing.
OF_ONE_NAME: Final = frozenset({errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENOTEMPTY,
                                errno.ENAMETOOLONG})


class TopicSettings(NamedTuple):
    """Settings of a topic's partitions."""

    log: LogSettings
    min_insync_replicas: int
    leader_throttled: Container[int]
    follower_throttled: Container[int]


class Replicas:
    """The replicas of this node: their logs, roles and settings. Loop thread only."""

    def __init__(self, broker: Broker, logs: LogManager, groups: GroupDriver, replication: Replication,
                 directories: Directories, moves: ReplicaMoves) -> None:
        self.broker = broker
        self.logs = logs
        self.groups = groups
        self.replication = replication
        self.directories = directories
        self.moves = moves
        # Keyed by the topic's own settings: resolving some thirty settings takes longer than creating a log.
        self._settings_of: dict[tuple[frozenset[tuple[str, str]], bool], TopicSettings] = {}
        window = {"samples": broker.config.integer("replication.quota.window.num"),
                  "sample_ms": 1000 * broker.config.integer("replication.quota.window.size.seconds")}
        self.leader_quota = ReplicationQuota(**window)
        self.follower_quota = ReplicationQuota(**window)
        self.failed: dict[tuple[str, int], Exception] = {}
        """Replicas whose log cannot be opened or whose role cannot be installed, and the cause. Others are served."""
        self.run_work: Callable[[Generator[None]], None] = finish
        """Does work in steps, now or in later iterations of the loop."""
        self._retries = Retries()
        broker.unserved = self.failed
        broker.storage = self
        self.damaged: dict[tuple[str, int], Partition] = {}
        """Replicas whose log missed records when it was opened; see `lost_records`."""

    def carry_out(self, steps: Iterable[Step]) -> None:
        """Carry out removals and roles in the plan's order."""
        for step in steps:
            try:
                if step.action is Action.REMOVE:
                    self._remove(step)
                else:
                    self._install(step)
            except AssertionError:
                raise
            except Exception as error:     # whatever it is, it concerns this one partition
                log.exception("%s-%d cannot be served", step.topic, step.number)
                self._not_served(step, error)
                self.fence_failed(error)

    def _not_served(self, step: Step, error: Exception) -> None:
        """Report the replica, so that the controller has another one lead. An unexpected error half-way closes the
        replica."""
        installed = self.broker.table.get(step.topic, step.number)
        if installed is not None and not isinstance(error, KraftError):
            self._give_up(installed)
        self.failed[step.topic, step.number] = error
        self._retries.failed((step.topic, step.number), time.monotonic())
        if step.partition is not None and self.broker.table.get(step.topic, step.number) is None:
            self.directories.lost(step.topic_id, step.number, step.partition)

    def lost_records(self) -> list[str]:
        """See `StoragePort`. Leaves out logs that were cut since, and those whose log start has passed the damage."""
        found = []
        for key, partition in list(self.damaged.items()):
            if partition.removed or self.broker.table.get(*key) is not partition:
                del self.damaged[key]
            elif not partition.log.closed and (offset := partition.log.first_lost_offset) is not None:
                found.append(f"{key[0]}-{key[1]} has lost records from offset {offset} on: {partition.log.recovery}")
        return found

    @property
    def stray_count(self) -> int:
        return len(self.logs.removals.strays)

    def without_resources(self) -> list[tuple[str, int]]:
        """Replicas whose log could not be opened for lack of room, descriptors or memory. Replicas of a failed
        directory are excluded, even when it failed for such a lack."""
        return [key for key, error in self.failed.items()
                if isinstance(error, StorageError) and error.errno in RESOURCE_ERRORS
                and self.logs.directory_of(*key) not in self.logs.offline]

    def due(self) -> list[tuple[str, int]]:
        """Replicas that failed for another reason, and whose pause has ended. A replica in an offline directory waits
        for the next start, as in Kafka."""
        now = time.monotonic()
        without_resources = set(self.without_resources())
        return [key for key in self.failed
                if key not in without_resources and self._retries.is_due(key, now)
                and self.logs.directory_of(*key) not in self.logs.offline]

    def open_again(self, topic: str, number: int) -> bool:
        """Open a failed replica again. Returns whether nothing is left to retry: it was opened, it was removed
        meanwhile, or its removal is due."""
        found, registration = self.broker.image.topic(topic), self.broker.image.partition(topic, number)
        if ((topic, number) not in self.failed or found is None or registration is None
                or self.broker.node_id not in registration.replicas):
            return True
        del self.failed[topic, number]
        self.carry_out([plan_one(topic, found.topic_id, number, registration, self.broker.node_id)])
        if (topic, number) in self.failed:
            return False
        self._retries.forget((topic, number))
        log.info("%s-%d is served again", topic, number)
        return True

    def sort_out(self, image: MetadataImage) -> None:
        """Remove, at a start, the logs that are no replica of this node, and all but one of a partition that has
        several. See `Removals` for what is deleted and what is set aside."""
        for name in list(self.logs.partitions()):
            registration = image.partition(name.topic, name.partition)
            if registration is None or self.broker.node_id not in registration.replicas:
                self.logs.remove(*name, delay_seconds=REMOVE_DELAY_SECONDS)
            else:
                self.logs.settle(name, image.topic_ids[name.topic], registration.directory_of(self.broker.node_id))
        self.logs.finish_removals(image, self.broker.node_id)

    def reconfigure(self, topics: Iterable[str]) -> None:
        """Apply changed settings of these topics, or of what they fall back to. Work that exceeds one slice continues
        in later iterations of the loop."""
        topics = list(topics)
        for name in topics if self.failed else ():
            self._retries.hasten(name)
        self._settings_of.clear()
        self._reconfigure_some(self._stale(topics))

    def _stale(self, topics: Iterable[str]) -> Iterator[tuple[Partition, TopicSettings]]:
        """Partitions of `topics` with their settings. Resolved one by one, because the metadata may change between two
        of them."""
        for name in topics:
            image = self.broker.image.topic(name)
            for index in () if image is None else list(image.partitions):
                registration, partition = self.broker.image.partition(name, index), self.broker.table.get(name, index)
                if registration is not None and partition is not None and not partition.log.closed:
                    yield partition, self._settings(name, registration)

    def _reconfigure_some(self, stale: Iterator[tuple[Partition, TopicSettings]]) -> None:
        until = time.monotonic() + SLICE_SECONDS
        for partition, settings in stale:
            self._reconfigure(partition, settings)
            if time.monotonic() >= until:
                asyncio.get_running_loop().call_soon(self._reconfigure_some, stale)
                return

    def reconfigure_throttles(self) -> None:
        """Apply the rates at which throttled replicas are copied, which may have changed."""
        self.leader_quota.set_rate(self.broker.integer("leader.replication.throttled.rate"))
        self.follower_quota.set_rate(self.broker.integer("follower.replication.throttled.rate"))
        self.moves.reconfigure()

    def _throttle(self, partition: Partition, settings: TopicSettings) -> None:
        partition.throttle(self.leader_quota if partition.index in settings.leader_throttled else None,
                           self.follower_quota if partition.index in settings.follower_throttled else None)

    def _reconfigure(self, partition: Partition, settings: TopicSettings) -> None:
        """Apply settings to one partition. A log that cannot have them keeps its current ones; a disk that fails here
        is fenced by its own failure."""
        def apply() -> None:
            partition.set_min_insync_replicas(settings.min_insync_replicas)
            self._throttle(partition, settings)
            partition.reconfigure(settings.log.over(partition.log.config))

        self.broker.faults.attempt(_subject(partition.topic, partition.index), apply)

    def _install(self, step: Step) -> None:
        assert step.partition is not None
        registration = step.partition
        settings = self._settings(step.topic, registration)
        partition = self.broker.table.get(step.topic, step.number)
        if partition is None and self.logs.directory_of(step.topic, step.number) in self.logs.offline:
            return                     # reported when the directory failed
        if (partition is None and self.logs.home(step.topic, step.number) is None
                and self.logs.may_be_offline(registration.directory_of(self.broker.node_id))):
            log.warning("%s-%d is offline: its log may lie in a directory that cannot be opened", step.topic,
                        step.number)
            return
        if partition is None and (step.topic, step.number) in self.failed:
            return                     # reported to the controller; see `open_again`
        if partition is None:
            opened = self.logs.open(step.topic, step.number, step.topic_id, settings.log.config)
            if not opened.recovery.intact:
                log.error("%s-%d: records are missing or damaged: %s", step.topic, step.number, opened.recovery)
            for path, why in opened.recovery.ignored:
                log.warning("%s-%d: %s is not used, and made again: %s", step.topic, step.number, path, why)
            opened.remove_with(partial(self._segments_removed, step.topic))
            partition = Partition(opened, step.topic, step.topic_id.bytes, step.number,
                                  min_insync_replicas=settings.min_insync_replicas)
            self._throttle(partition, settings)
            partition.watch_failure(self._log_failed, self._read_failed)
            self.broker.table.add(partition)
            if not opened.recovery.intact:
                self.damaged[step.topic, step.number] = partition
            self.moves.installed(partition)
        self.directories.placed(step.topic, step.number, step.topic_id, registration)
        if registration.leader_epoch < partition.leader_epoch:
            return
        if partition.log.config.high_watermark != settings.log.config.high_watermark:
            # The partition has followers now, or has lost its last one.
            partition.reconfigure(settings.log.over(partition.log.config))
        if step.action is Action.LEAD:
            news = registration.leader_epoch > partition.leader_epoch or not partition.is_leader
            self.replication.roles.lead(partition, registration)
            if step.topic == OFFSETS_TOPIC and news:
                self.groups.lead(partition)
        else:
            self.replication.roles.follow(partition, registration)
            if step.topic == OFFSETS_TOPIC:
                self.groups.resign(step.number, registration.leader_epoch)

    def _segments_removed(self, topic: str, names: list[bytes]) -> None:
        """Remove the files of segments that retention deleted, after file.delete.delay.ms and off the loop."""
        delay_ms = self.broker.topic_setting(topic, "file.delete.delay.ms")
        assert isinstance(delay_ms, int)
        self.logs.removals.schedule_removal((Path(os.fsdecode(name)) for name in names), delay_ms / 1000)

    def _log_failed(self, partition: Partition) -> None:
        """Handle a failed write or flush in a later iteration: the caller is in the middle of a request."""
        asyncio.get_running_loop().call_soon(self._lose_directory_of, partition)

    def _read_failed(self, error: StorageError) -> None:
        """Handle a file of a log that cannot be read, in a later iteration for the same reason."""
        asyncio.get_running_loop().call_soon(self.fence_failed, error)

    def _lose_directory_of(self, partition: Partition) -> None:
        directory = self.logs.directory_of(partition.topic, partition.index)
        cause = partition.log.failure
        if directory is not None and isinstance(cause, KraftError):
            self.lose_directory(directory, cause)

    def fence_failed(self, error: BaseException) -> None:
        """Take the directory of the failed file offline, whatever the operation was for. Exceptions: a lack that may
        pass, and errors that concern one name."""
        for directory in self.logs.directories:
            failure = failure_in(directory.path, error)
            if (failure is not None and failure.errno not in RESOURCE_ERRORS | OF_ONE_NAME
                    and directory not in self.logs.offline):
                self.lose_directory(directory, failure)

    def lose_path(self, path: Path, cause: StorageError) -> None:
        """Take the log directory with this path offline."""
        for directory in self.logs.directories:
            if directory.path == path:
                self.lose_directory(directory, cause)

    def lose_directory(self, directory: LogDir, cause: KraftError) -> None:
        """Take a log directory offline and stop serving its replicas."""
        self.moves.directory_failed(directory)
        self.run_work(self._lose(self.directories.failed(directory, cause), cause))

    def _lose(self, names: Iterable[tuple[str, int]], cause: KraftError) -> Generator[None]:
        for topic, index in names:
            lost = self.broker.table.get(topic, index)
            if lost is not None:
                self._give_up(lost)
                self.failed[topic, index] = cause
                yield

    def give_up_all(self) -> None:
        """Stop leading and following everything; requests that wait for a replica are answered. The logs stay as they
        are."""
        for partition in list(self.broker.table):
            self._give_up(partition)

    def _give_up(self, partition: Partition) -> None:
        """Stop serving one replica."""
        if partition.topic == OFFSETS_TOPIC:
            self.groups.resign(partition.index, None)
        self.replication.roles.remove(partition)
        self.broker.table.remove(partition.topic, partition.index)

    def _remove(self, step: Step) -> None:
        if step.topic == OFFSETS_TOPIC:
            self.groups.resign(step.number, None)
        self.moves.give_up(TopicPartition(step.topic, step.number))
        if (partition := self.broker.table.get(step.topic, step.number)) is not None:
            self.replication.roles.remove(partition)
            self.broker.table.remove(step.topic, step.number)
        self.failed.pop((step.topic, step.number), None)
        self._retries.forget((step.topic, step.number))
        self._forget_faults(step.topic, step.number)
        if step.recorded:
            self.logs.removals.record(TopicPartition(step.topic, step.number), step.topic_id)
        # In a later iteration: requests that wait for the partition are answered first, and may still read its log.
        asyncio.get_running_loop().call_soon(self._remove_log, step)

    def _forget_faults(self, topic: str, index: int) -> None:
        self.broker.faults.forget(_subject(topic, index))
        found = self.broker.image.topic(topic)
        if found is None or not any(self.broker.node_id in each.replicas for each in found.partitions.values()):
            self.broker.faults.forget(f"topic {topic}")

    def _remove_log(self, step: Step) -> None:
        """Remove the log, unless a topic of the same name was created meanwhile: opening the new log removed the old
        one."""
        try:
            if self.broker.table.get(step.topic, step.number) is None:
                self.logs.remove(step.topic, step.number, delay_seconds=REMOVE_DELAY_SECONDS)
        except (KraftError, OSError) as error:
            log.exception("%s-%d: its log cannot be removed", step.topic, step.number)
            self.fence_failed(error)
        finally:
            self.logs.removals.forget(TopicPartition(step.topic, step.number), step.topic_id)

    def _settings(self, topic: str, registration: PartitionRegistration) -> TopicSettings:
        overrides = self.broker.topic_overrides(topic)
        replicated = len(registration.replicas) > 1
        key = frozenset(overrides.items()), replicated
        if (found := self._settings_of.get(key)) is None:
            if len(self._settings_of) >= SETTINGS_KEPT_MAX:
                self._settings_of.clear()
            found = self._settings_of[key] = self._resolved(topic, overrides, replicated=replicated)
        self.broker.faults.note(f"topic {topic}", tuple(map(str, found.log.faults)))
        return found

    def _resolved(self, topic: str, overrides: Mapping[str, str], *, replicated: bool) -> TopicSettings:
        minimum = self.broker.topic_setting(topic, "min.insync.replicas")
        assert isinstance(minimum, int)
        return TopicSettings(
            log_settings(overrides, self.broker.layers(), replicated=replicated), minimum,
            self._throttled(topic, "leader.replication.throttled.replicas"),
            self._throttled(topic, "follower.replication.throttled.replicas"))

    def _throttled(self, topic: str, setting: str) -> Container[int]:
        value = self.broker.topic_setting(topic, setting)
        assert isinstance(value, list)
        return throttled_partitions(value, self.broker.node_id)


def _subject(topic: str, index: int) -> str:
    return f"partition {topic}-{index}"
