"""Upkeep between requests: retention, compaction, checkpoints, removed files. Each in turns of a few milliseconds."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Final

from kraft.broker.broker import Broker
from kraft.runtime.log_manager import TURN_SECONDS, LogManager
from kraft_native.errors import KraftError
from kraft_native.partition import Partition

log = logging.getLogger(__name__)

FILE_REMOVAL_PERIOD_SECONDS: Final = 1.0


class Housekeeping:
    """Loop thread only. What fails on one log is logged, and fences that log alone."""

    def __init__(self, broker: Broker, logs: LogManager, clock: Callable[[], int],
                 on_failure: Callable[[BaseException], object]) -> None:
        self.broker = broker
        self.logs = logs
        self.clock = clock
        self._on_failure = on_failure
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begins all periodic work."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(work) for work in (
            self._every(self._seconds("log.retention.check.interval.ms"), self._retain),
            self._every(self._seconds("log.flush.offset.checkpoint.interval.ms"), self._checkpoint),
            self._every(FILE_REMOVAL_PERIOD_SECONDS, self._remove_files),
            self._every(self._seconds("log.cleaner.backoff.ms"), self._clean),
        )]

    async def stop(self) -> None:
        """Ends it, between two turns."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _seconds(self, name: str) -> float:
        return self.broker.integer(name) / 1000

    async def _every(self, seconds: float, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Repeats `work`. A log or a disk that fails is told and tried again later; any other failure is our own."""
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except (KraftError, OSError):
                log.exception("%s failed; it is tried again in %g s", work.__name__.strip("_"), seconds)
            except Exception as error:  # noqa: BLE001 - whatever it is: upkeep that ended silently would be worse
                self._on_failure(error)
                return

    async def _retain(self) -> None:
        """Deletes what retention lets go, log by log."""
        turn = Turn()
        for partition in list(self.broker.table):
            if not partition.removed and partition.log.failure is None:
                self._guarded(partition, "retention", self._apply_retention)
            await turn.give_way()

    def _apply_retention(self, partition: Partition) -> None:
        if partition.log.apply_retention(self.clock()):
            partition.log_changed()

    async def _checkpoint(self) -> None:
        self.logs.checkpoint()

    async def _remove_files(self) -> None:
        self.logs.remove_files()

    async def _clean(self) -> None:
        """Compacts every log that is due, one after the other."""
        if not self.broker.setting("log.cleaner.enable"):
            return
        turn = Turn()
        for partition in list(self.broker.table):
            compacted = "compact" in partition.log.config.cleanup_policy
            if compacted and not partition.removed and partition.log.failure is None:
                self._guarded(partition, "compaction", self._compact)
            await turn.give_way()

    def _compact(self, partition: Partition) -> None:
        size = self.broker.integer("log.cleaner.dedupe.buffer.size")
        partition.log.compact(self.clock(), buffer_bytes=size)

    def _guarded(self, partition: Partition, what: str, work: Callable[[Partition], None]) -> None:
        try:
            work(partition)
        except (KraftError, OSError):
            log.exception("%s of %s-%d failed", what, partition.topic, partition.index)


class Turn:
    """Gives way to the loop when a turn has lasted long enough."""

    def __init__(self) -> None:
        self.until = time.monotonic() + TURN_SECONDS

    async def give_way(self) -> None:
        if time.monotonic() >= self.until:
            await asyncio.sleep(0)
            self.until = time.monotonic() + TURN_SECONDS
