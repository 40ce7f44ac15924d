"""Upkeep between requests: retention, compaction, checkpoints, removed files, replicas that could not be opened.

Threads wait for the disk: the cleaner's for compaction, one more for everything else. The rest runs on the loop in
slices of a few milliseconds.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Final, TypeVar

from kraft.broker.apis import import_steps
from kraft.broker.broker import Broker
from kraft.log import Log
from kraft.runtime.base.time_slices import TimeSlice
from kraft.runtime.replicas.manager import ReplicaManager
from kraft.runtime.storage.log_manager import LogManager
from kraft.runtime.storage.removals import remove_paths
from kraft.runtime.upkeep.cleaning import Cleaner
from kraft_native.base.errors import KraftError, LogClosedError
from kraft_native.file import file_io
from kraft_native.partition.partition import Partition

log = logging.getLogger(__name__)

Given = TypeVar("Given")

FILE_REMOVAL_PERIOD_SECONDS: Final = 1.0
REOPENING_PERIOD_SECONDS: Final = 10.0
IMPORT_PAUSE_SECONDS: Final = 0.2
# Segments that retention deletes from a log, with one durable mark, before it checks the clock.
RETAINED_AT_ONCE_MAX: Final = 5


class Housekeeping:
    """Periodic upkeep of all logs. Loop thread only. A failure on one log is logged, and fences that log alone."""

    def __init__(self, broker: Broker, logs: LogManager, replicas: ReplicaManager, clock: Callable[[], int],
                 on_failure: Callable[[BaseException], object]) -> None:
        self.broker = broker
        self.logs = logs
        self.replicas = replicas
        self.clock = clock
        self.cleaner = Cleaner(broker, clock, replicas.fence_failed)
        self._on_failure = on_failure
        self._tasks: list[asyncio.Task[None]] = []
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="kraft-upkeep")
        self._stopping = asyncio.Event()

    def start(self) -> None:
        """Start all periodic work."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(work) for work in (
            self._every("log.retention.check.interval.ms", self._retain, self._first_seconds),
            self._every("producer.id.expiration.check.interval.ms", self._expire_producers),
            self._every("log.flush.offset.checkpoint.interval.ms", self._checkpoint, self._first_seconds),
            self._every(FILE_REMOVAL_PERIOD_SECONDS, self._remove_files),
            self._every(REOPENING_PERIOD_SECONDS, self._open_again),
            self._every("log.cleaner.backoff.ms", self.cleaner.run),
            self._import_handlers(),
        )]

    async def stop(self) -> None:
        """End the work between two slices. Returns when none of its threads uses a log."""
        self._stopping.set()
        self.cleaner.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.cleaner.close()
        self._disk.shutdown()

    @property
    def _first_seconds(self) -> float:
        """Delay of the first run after the start: work that an earlier process left undone does not wait for a whole
        interval."""
        return self.broker.integer("log.initial.task.delay.ms") / 1000

    async def _every(self, period: str | float, work: Callable[[], Coroutine[None, None, None]],
                     first: float = math.inf) -> None:
        """Repeat `work` after pauses of `period` seconds, or of the milliseconds in the setting of that name. The first
        pause is at most `first` seconds. A failure of a log or a disk is logged, and `work` is tried again later. Any
        other failure is our own."""
        while True:
            seconds = self.broker.integer(period) / 1000 if isinstance(period, str) else period
            if await self._stopped_within(min(first, seconds)):
                return
            first = math.inf
            try:
                await work()
            except (KraftError, OSError) as error:
                log.exception("%s failed; it is tried again in %g s", work.__name__.strip("_"), seconds)
                self.replicas.fence_failed(error)
            except Exception as error:  # noqa: BLE001 - whatever it is: upkeep that ended unnoticed would be worse
                self._on_failure(error)
                return

    async def _stopped_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(max(seconds, 0.001)):
                await self._stopping.wait()
        except TimeoutError:
            return False
        return True

    async def _import_handlers(self) -> None:
        """Import the handlers and metadata records that nothing has needed yet, so that a package that is upgraded
        below a running node has no effect on it."""
        try:
            for _ in import_steps():
                if await self._stopped_within(IMPORT_PAUSE_SECONDS):
                    return
            import_module("kraft.runtime.replicas.share_persister")
            import_module("kraft.runtime.replicas.share_partitions")
        except Exception:
            log.exception("not all handlers could be imported: was the package replaced while this node starts?")

    async def _on_disk(self, work: Callable[[], Given]) -> Given:
        """Run `work` in the thread, because it waits for the device."""
        return await asyncio.get_running_loop().run_in_executor(self._disk, work)

    # --- retention

    async def _retain(self) -> None:
        """Delete what exceeds retention, log by log, a few segments at a time."""
        time_slice = TimeSlice()
        for partition in list(self.broker.table):
            more = True
            while more and not self._stopping.is_set():
                await self._warm(partition)
                more = self._retain_some(partition)
                await time_slice.give_way()

    async def _warm(self, partition: Partition) -> None:
        """Return when the files that retention reads are in memory."""
        ready = asyncio.Event()
        if partition.log.failure is None and self.broker.cold_reader.warm_retention(
                partition.log, self.clock(), ready.set, segments_max=RETAINED_AT_ONCE_MAX):
            await ready.wait()

    def _retain_some(self, partition: Partition) -> bool:
        """Delete some segments. Returns whether there may be more to delete."""
        if partition.removed or partition.log.failure is not None:
            return False
        try:
            deleted = partition.log.apply_retention(self.clock(), segments_max=RETAINED_AT_ONCE_MAX,
                                                    expire_producers=False)
        except (KraftError, OSError) as error:
            log.exception("retention of %s-%d failed", partition.topic, partition.index)
            self.replicas.fence_failed(error)
            return False
        if deleted:
            partition.log_changed()
        return deleted == RETAINED_AT_ONCE_MAX

    async def _expire_producers(self) -> None:
        """Remove idle producers, log by log."""
        time_slice = TimeSlice()
        for partition in list(self.broker.table):
            if not partition.removed and partition.log.failure is None and not partition.log.closed:
                partition.log.apply_retention(self.clock(), segments_max=0)
            await time_slice.give_way()

    async def _remove_files(self) -> None:
        if due := self.logs.removals.take_removable():
            for error in await self._on_disk(lambda: remove_paths(due)):
                log.warning("files that were to be deleted are still there: %s", error)
                self.replicas.fence_failed(error)

    # --- replicas

    async def _open_again(self) -> None:
        """Open replicas again: first those that lacked room, until one fails for all of them. Then those that failed
        for a reason of their own, each after its pause."""
        time_slice = TimeSlice()
        for key in self.replicas.without_resources():
            if self._stopping.is_set() or not self.replicas.open_again(*key):
                break
            await time_slice.give_way()
        for key in self.replicas.due():
            if self._stopping.is_set():
                return
            self.replicas.open_again(*key)
            await time_slice.give_way()

    # --- checkpoints

    async def _checkpoint(self) -> None:
        """Record recovery points, high watermarks and log starts of every directory."""
        time_slice = TimeSlice()
        for directory in list(self.logs.directories):
            if directory in self.logs.offline:
                continue
            for name, each in list(directory.open_logs()):
                since_ns = file_io.stamp_ns()
                await self._checkpoint_log(each)
                if self._stopping.is_set():
                    return             # closing records everything
                if not each.closed:
                    directory.note(name, each, since_ns)
                await time_slice.give_way()
            if directory not in self.logs.offline:
                await self._on_disk(directory.write_marks)

    async def _checkpoint_log(self, target: Log) -> None:
        if target.closed or target.failure is not None:
            return
        try:
            checkpoint = target.begin_checkpoint()
            if checkpoint is not None:
                await self._on_disk(checkpoint.write)
                checkpoint.finish()
        except LogClosedError:
            return
        except (KraftError, OSError) as error:
            log.exception("%s: its checkpoint failed", target.directory)
            self.replicas.fence_failed(error)
