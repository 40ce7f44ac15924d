"""The log cleaner: compacts the logs that are due, the filthiest first, in threads of its own (Kafka's LogCleaner)."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from kraft.broker.broker import Broker
from kraft.runtime.base.time_slices import TimeSlice
from kraft_native.base.errors import KraftError, LogClosedError, OperationError
from kraft_native.facade.log import Log as NativeLog
from kraft_native.partition.partition import Partition

log = logging.getLogger(__name__)

BUFFER_BYTES_MIN: Final = 1 << 20
BUFFER_BYTES_MAX: Final = 1 << 31
"""Limits for one thread, as in Kafka."""
THREADS_MAX: Final = 64
RATE_MIN: Final = 1.0
"""Bytes per second. A rate of 0 or below practically stops the cleaner."""
PAUSE_SECONDS_MAX: Final = 1.0
"""Pause between two readings of the rate, which may change meanwhile."""


class CleanerCounts(NamedTuple):
    """Work of the cleaner since the node started."""

    compactions: int
    bytes_read: int
    bytes_written: int
    uncleanable: int


class Throttle:
    """Limiter of the bytes that all cleaner threads together move. Any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.bytes_per_second = float("inf")
        self.changes = 0
        """Changes of the rate so far."""
        self._clock = clock
        self._lock = threading.Lock()
        self._free_at = clock()

    def limit(self, bytes_per_second: float) -> None:
        """Put a rate in force. A changed rate cancels the debt for bytes moved until now."""
        with self._lock:
            rate = max(bytes_per_second, RATE_MIN)
            if rate != self.bytes_per_second:
                self.bytes_per_second = rate
                self._free_at = self._clock()
                self.changes += 1

    def seconds_for(self, moved_bytes: int) -> float:
        """Pause in seconds after moving this many bytes."""
        with self._lock:
            now = self._clock()
            self._free_at = max(self._free_at, now) + moved_bytes / self.bytes_per_second
            return self._free_at - now


class Cleaner:
    """The cleaner and its threads. Loop thread only, except for the code of its own threads.

    A thread reads and writes. Changes of a log's state are passed back to the loop, in steps about as long as the
    renaming of a file. A log whose compaction failed is left alone until the node starts again, as in Kafka.
    """

    def __init__(self, broker: Broker, clock: Callable[[], int], on_failure: Callable[[BaseException], object]) -> None:
        """`on_failure` is called with the error that kept a log from being compacted."""
        self.broker = broker
        self.clock = clock
        self._on_failure = on_failure
        self.throttle = Throttle()
        self.uncleanable: dict[tuple[str, int], NativeLog] = {}
        self.loop_steps = 0
        """Steps that ran on the loop."""
        self._compactions = self._bytes_read = self._bytes_written = 0
        self._stopped = threading.Event()
        self.loop = asyncio.get_running_loop()
        self._threads: ThreadPoolExecutor | None = None
        self._thread_count = 0
        self._buffer_bytes = BUFFER_BYTES_MIN

    @property
    def counts(self) -> CleanerCounts:
        """Counts for the metrics."""
        return CleanerCounts(self._compactions, self._bytes_read, self._bytes_written, len(self.uncleanable))

    def reconfigure(self) -> None:
        """Apply the rate, which may have changed, also to a running compaction."""
        rate = self.broker.setting("log.cleaner.io.max.bytes.per.second")
        assert isinstance(rate, float)
        self.throttle.limit(rate)

    async def run(self) -> None:
        """Compact the logs that are due now."""
        threads = min(self.broker.integer("log.cleaner.threads"), THREADS_MAX)
        if not self.broker.setting("log.cleaner.enable") or threads == 0:
            return
        self.reconfigure()
        self._buffer_bytes = min(max(self.broker.integer("log.cleaner.dedupe.buffer.size") // threads,
                                     BUFFER_BYTES_MIN), BUFFER_BYTES_MAX)
        due = await self._due()
        if not due:
            return
        if self._thread_count != threads:
            self._end_threads()
            self._threads = ThreadPoolExecutor(threads, thread_name_prefix="kraft-log-cleaner")
            self._thread_count = threads
        await asyncio.gather(*(self._work(due) for _ in range(min(threads, len(due)))))

    async def _due(self) -> list[Partition]:
        """The logs to compact, the filthiest last."""
        found: list[tuple[float, str, int, Partition]] = []
        time_slice = TimeSlice()
        for partition in list(self.broker.table):
            if self._may_compact(partition):
                try:
                    urgency = partition.log.compaction_due(self.clock())
                except (KraftError, OSError) as error:
                    self._failed(partition, error)
                    continue
                if urgency > 0:
                    found.append((urgency, partition.topic, partition.index, partition))
            await time_slice.give_way()
        return [each[-1] for each in sorted(found, key=lambda each: each[:-1])]

    def _may_compact(self, partition: Partition) -> bool:
        return ("compact" in partition.log.config.cleanup_policy and not partition.removed
                and partition.log.failure is None
                and self.uncleanable.get((partition.topic, partition.index)) is not partition.log)

    async def _work(self, due: list[Partition]) -> None:
        """Compact logs in one of the threads until none is due."""
        while due and not self._stopped.is_set():
            partition = due.pop()
            if not self._may_compact(partition):
                continue
            target = partition.log
            try:
                await self.loop.run_in_executor(self._threads, self._compact, target)
            except LogClosedError:
                continue
            except (KraftError, OSError) as error:
                # A log that moved to another directory meanwhile is checked again there.
                if not self._stopped.is_set() and not partition.removed and partition.log is target:
                    self._failed(partition, error)

    def _failed(self, partition: Partition, error: BaseException) -> None:
        """Handle a failed compaction. A log that was truncated meanwhile is checked again later; any other is left
        alone."""
        name = f"{partition.topic}-{partition.index}"
        if type(error) is OperationError:
            log.info("%s: the compaction ended: %s", name, error)
            return
        self.uncleanable[partition.topic, partition.index] = partition.log
        log.error("%s cannot be compacted; it is left as it is until the node starts again: %s", name, str(error))
        self._on_failure(error)

    # --- in a thread of the cleaner

    def _compact(self, target: NativeLog) -> None:
        done = target.compact(self.clock(), buffer_bytes=self._buffer_bytes, throttle=self._pause,
                              on_owner=self._on_loop)
        self.loop.call_soon_threadsafe(self._count, done.rounds, done.bytes_read + done.map_bytes_read,
                                        done.bytes_written)

    def _pause(self, moved_bytes: int) -> None:
        """Wait as the rate requires, or until the rate changes. Ends the compaction when the cleaner was stopped."""
        changes, seconds = self.throttle.changes, self.throttle.seconds_for(moved_bytes)
        while True:
            if self._stopped.wait(min(seconds, PAUSE_SECONDS_MAX)):
                raise OperationError("the log cleaner was stopped")
            seconds -= PAUSE_SECONDS_MAX
            if seconds <= 0 or self.throttle.changes != changes:
                return

    def _on_loop(self, step: Callable[[], object]) -> object:
        async def take() -> object:
            self.loop_steps += 1
            return step()

        if self._stopped.is_set():
            raise OperationError("the log cleaner was stopped")
        return asyncio.run_coroutine_threadsafe(take(), self.loop).result()

    # --- on the loop again

    def _count(self, rounds: int, bytes_read: int, bytes_written: int) -> None:
        self._compactions += rounds
        self._bytes_read += bytes_read
        self._bytes_written += bytes_written

    def stop(self) -> None:
        """Have the threads end at their next step or pause; then `run` returns."""
        self._stopped.set()

    def close(self) -> None:
        """End the threads. Call after `run` has ended."""
        self._end_threads()

    def _end_threads(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None
