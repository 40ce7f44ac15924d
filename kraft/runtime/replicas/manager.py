"""Life of this node's replicas: a committed change of the metadata becomes logs, roles and settings.

    change --plan--> steps --execute--> log, role, settings

The plan is pure (`kraft.broker.replica_plan`). Calls go down only: to the logs, to the roles
(`kraft.broker.replica_roles`), to the connections. What happens there comes back as an event, to a callback that the
constructor passed on.
"""

import asyncio
import errno
import logging
import os
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Final
from uuid import UUID

from kraft.broker.broker import Broker
from kraft.broker.replica_plan import Action, Step, plan_all, plan_one, plan_steps, recorded_removals
from kraft.broker.replica_roles import ReplicaRoles
from kraft.log_dir import LogDir, TopicPartition
from kraft.metadata.delta import MetadataDelta, PartitionChange
from kraft.metadata.image import MetadataImage, PartitionRegistration
from kraft.runtime.net.dialer import Dialer
from kraft.runtime.replicas.coordinator_driver import CoordinatorDriver
from kraft.runtime.replicas.creations import CreationQueue
from kraft.runtime.replicas.dir_reports import DirReports
from kraft.runtime.replicas.moves import ReplicaMoves, failure_in
from kraft.runtime.replicas.replication import Replication
from kraft.runtime.replicas.retries import Retries
from kraft.runtime.replicas.settings import ReplicaSettings, TopicSettings
from kraft.runtime.storage.log_manager import LogManager
from kraft_native.base.errors import KraftError, StorageError
from kraft_native.partition.partition import Partition

log = logging.getLogger(__name__)

# The files of a deleted topic are removed at once: no other process can hold them open.
REMOVE_DELAY_SECONDS: Final = 0.0
QUEUED_STEP: Final = 128
"""Replicas that one step of `execute_steps` queues."""
# Resources that a machine may lack for a while.
RESOURCE_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
# Errors that concern one name in a directory, and not the directory. `DirectoryWatch` finds a directory that is
# missing.
OF_ONE_NAME: Final = frozenset({errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENOTEMPTY,
                                errno.ENAMETOOLONG})


class ReplicaManager:
    """The replicas of this node: their logs, roles and settings. Loop thread only.

    `clock` is the wall clock in milliseconds. `run_work` does work in steps, in order with the committed changes.
    `on_lost_dir(directory id)` is called for a log directory that failed, `on_failure` for a fault of our own.
    """

    def __init__(self, broker: Broker, logs: LogManager, coordinators: Mapping[str, CoordinatorDriver], dialer: Dialer,
                 clock: Callable[[], int], run_work: Callable[[Generator[None]], None],
                 on_lost_dir: Callable[[UUID], None], on_failure: Callable[[BaseException], object]) -> None:
        self.broker = broker
        self.logs = logs
        self.coordinators = coordinators
        """Drivers of the coordinators, by topic."""
        self.replication = Replication(broker, dialer, clock, on_failure)
        self.settings = ReplicaSettings(broker)
        self.failed: dict[tuple[str, int], Exception] = {}
        """Replicas whose log cannot be opened or whose role cannot be installed, and the cause. Others are served."""
        self.damaged: dict[tuple[str, int], Partition] = {}
        """Replicas whose log missed records when it was opened; see `lost_records`."""
        self.slow_count = self.slow_opened = 0
        """Logs that need a long recovery at this start, and those of them that `open_all` has opened."""
        self._roles: ReplicaRoles[Partition] = ReplicaRoles(broker.node_id, self.replication.keeper, self.replication)
        self._reports = DirReports(broker, logs, clock, on_lost_dir, on_failure)
        self.moves = ReplicaMoves(broker, logs, self._reports, self.lose_directory, on_failure)
        self._creations = CreationQueue(broker.table, self.execute, on_failure)
        self._retries = Retries()
        self._run_work = run_work
        self._is_started = False
        broker.attach_replicas(self, self.moves, self.replication.recorder, self.failed)

    async def close(self) -> None:
        """Stop all work on replicas; their logs stay open. May be called again."""
        self._creations.close()
        await self.moves.stop()
        self._reports.close()
        self.replication.close()

    # --- the committed changes

    def note_removals(self, delta: MetadataDelta) -> None:
        """Record the replicas that were deleted while this node was down, from the log that it replays at its start."""
        for step in () if self._is_started else recorded_removals(delta, self.broker.node_id):
            if self.logs.holds(name := TopicPartition(step.topic, step.number)):
                self.logs.removals.record(name, step.topic_id)

    def sort_out(self, image: MetadataImage) -> None:
        """Sort out, at a start, what the data directories have: interrupted moves, logs that are no replica of this
        node, and several logs of a partition. See `Removals` for what is deleted and what is set aside."""
        self.moves.recover(image)
        for name in list(self.logs.partitions()):
            registration = image.partition(name.topic, name.partition)
            if registration is None or self.broker.node_id not in registration.replicas:
                self.logs.remove(*name, delay_seconds=REMOVE_DELAY_SECONDS)
            else:
                self.logs.settle(name, image.topic_ids[name.topic], registration.directory_of(self.broker.node_id))
        self.logs.finish_removals(image, self.broker.node_id)
        self._is_started = True

    def open_all(self, image: MetadataImage) -> Generator[None]:
        """Install all replicas in steps: open the logs that take long, and queue the others."""
        steps = plan_all(image, self.broker.node_id)
        yield
        slow: list[bool] = []
        for step in steps:
            slow.append(self.logs.is_slow_to_open(step.topic, step.number))
            yield
        self.slow_count = sum(slow)
        for step in compress(steps, slow):
            self.execute(step)
            self.slow_opened += 1
            yield
        yield from self.execute_steps([step for step, is_slow in zip(steps, slow, strict=True) if not is_slow])

    def apply(self, delta: MetadataDelta, changes: Sequence[PartitionChange]) -> Generator[None]:
        """Plan one committed change and execute the plan, in steps. `changes`: those of the delta's partitions."""
        steps = yield from plan_steps(changes, delta, self.broker.node_id)
        yield from self.execute_steps(steps)
        for topic in dict.fromkeys(step.topic for step in steps if step.topic in self.coordinators):
            self.coordinators[topic].schedule()

    def execute_steps(self, steps: Iterable[Step]) -> Generator[None]:
        """Execute the steps of existing replicas with a pause after each, and queue the others with a pause after some.
        The caller finishes it before it begins later steps."""
        for number, step in enumerate(steps, 1):
            is_queued = self._creations.add(step)
            if not is_queued:
                self.execute(step)
            if not is_queued or number % QUEUED_STEP == 0:
                self._creations.schedule()
                yield
        self._creations.schedule()

    def execute(self, step: Step) -> None:
        """Carry out one removal or role."""
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

    def _install(self, step: Step) -> None:
        """Install the role of a replica whose log can be served."""
        assert step.partition is not None
        registration = step.partition
        settings = self.settings.of(step.topic, registration)
        partition = self.broker.table.get(step.topic, step.number)
        if partition is None:
            if not self._may_open(step, registration):
                return
            partition = self._open(step, settings)
        self._reports.placed(step.topic, step.number, step.topic_id, registration)
        if registration.leader_epoch < partition.leader_epoch:
            return
        if partition.log.config.high_watermark != settings.log.config.high_watermark:
            # The partition has followers now, or has lost its last one.
            partition.reconfigure(settings.log.over(partition.log.config))
        if step.action is Action.LEAD:
            news = registration.leader_epoch > partition.leader_epoch or not partition.is_leader
            self._roles.lead(partition, registration)
            if news and (driver := self.coordinators.get(step.topic)) is not None:
                driver.lead(partition)
        else:
            self._roles.follow(partition, registration)
            if (driver := self.coordinators.get(step.topic)) is not None:
                driver.resign(step.number, registration.leader_epoch)

    def _may_open(self, step: Step, registration: PartitionRegistration) -> bool:
        if self.logs.directory_of(step.topic, step.number) in self.logs.offline:
            return False               # reported when the directory failed
        if (self.logs.home(step.topic, step.number) is None
                and self.logs.may_be_offline(registration.directory_of(self.broker.node_id))):
            log.warning("%s-%d is offline: its log may lie in a directory that cannot be opened", step.topic,
                        step.number)
            return False
        return (step.topic, step.number) not in self.failed    # reported to the controller; see `open_again`

    def _open(self, step: Step, settings: TopicSettings) -> Partition:
        opened = self.logs.open(step.topic, step.number, step.topic_id, settings.log.config)
        if not opened.recovery.intact:
            log.error("%s-%d: records are missing or damaged: %s", step.topic, step.number, opened.recovery)
        for path, why in opened.recovery.ignored:
            log.warning("%s-%d: %s is not used, and made again: %s", step.topic, step.number, path, why)
        opened.remove_with(partial(self._segments_removed, step.topic))
        partition = Partition(opened, step.topic, step.topic_id.bytes, step.number,
                              min_insync_replicas=settings.min_insync_replicas)
        self.settings.throttle(partition, settings)
        partition.watch_failure(self._log_failed, self._read_failed)
        self.broker.table.add(partition)
        if not opened.recovery.intact:
            self.damaged[step.topic, step.number] = partition
        self.moves.installed(partition)
        return partition

    def _segments_removed(self, topic: str, names: list[bytes]) -> None:
        """Remove the files of segments that retention deleted, after file.delete.delay.ms and off the loop."""
        delay_ms = self.broker.topic_setting(topic, "file.delete.delay.ms")
        assert isinstance(delay_ms, int)
        self.logs.removals.schedule_removal((Path(os.fsdecode(name)) for name in names), delay_ms / 1000)

    def _remove(self, step: Step) -> None:
        if (driver := self.coordinators.get(step.topic)) is not None:
            driver.resign(step.number, None)
        self.moves.give_up(TopicPartition(step.topic, step.number))
        if (partition := self.broker.table.get(step.topic, step.number)) is not None:
            self._roles.remove(partition)
            self.broker.table.remove(step.topic, step.number)
        self.failed.pop((step.topic, step.number), None)
        self._retries.forget((step.topic, step.number))
        self.settings.forget_faults(step.topic, step.number)
        if step.recorded:
            self.logs.removals.record(TopicPartition(step.topic, step.number), step.topic_id)
        # In a later iteration: requests that wait for the partition are answered first, and may still read its log.
        asyncio.get_running_loop().call_soon(self._remove_log, step)

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

    def reconfigure(self, topics: Iterable[str]) -> None:
        """Apply changed settings of these topics, or of what they fall back to, in slices."""
        topics = list(topics)
        for name in topics if self.failed else ():
            self._retries.hasten(name)
        self.settings.reconfigure(topics)

    def reconfigure_throttles(self) -> None:
        """Apply the rates at which throttled replicas are copied, which may have changed."""
        self.settings.reconfigure_throttles()
        self.moves.reconfigure()

    # --- replicas that cannot be served

    def _not_served(self, step: Step, error: Exception) -> None:
        """Report the replica, so that the controller has another one lead. An unexpected error half-way closes the
        replica."""
        installed = self.broker.table.get(step.topic, step.number)
        if installed is not None and not isinstance(error, KraftError):
            self._give_up(installed)
        self.failed[step.topic, step.number] = error
        self._retries.failed((step.topic, step.number), time.monotonic())
        if step.partition is not None and self.broker.table.get(step.topic, step.number) is None:
            self._reports.lost(step.topic_id, step.number, step.partition)

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
    def waiting_count(self) -> int:
        """Number of replicas that wait to be opened or created."""
        return self._creations.waiting_count

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
        self.execute(plan_one(topic, found.topic_id, number, registration, self.broker.node_id))
        if (topic, number) in self.failed:
            return False
        self._retries.forget((topic, number))
        log.info("%s-%d is served again", topic, number)
        return True

    # --- failed directories

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
        self._run_work(self._lose(self._reports.failed(directory, cause), cause))

    def _lose(self, names: Iterable[tuple[str, int]], cause: KraftError) -> Generator[None]:
        for topic, index in names:
            lost = self.broker.table.get(topic, index)
            if lost is not None:
                self._give_up(lost)
                self.failed[topic, index] = cause
                yield

    def give_up_all(self) -> None:
        """Stop leading and following everything, and create nothing more. Requests that wait for a replica are
        answered. The logs stay as they are."""
        self._creations.close()
        for partition in list(self.broker.table):
            self._give_up(partition)

    def _give_up(self, partition: Partition) -> None:
        """Stop serving one replica."""
        if (driver := self.coordinators.get(partition.topic)) is not None:
            driver.resign(partition.index, None)
        self._roles.remove(partition)
        self.broker.table.remove(partition.topic, partition.index)
