"""Driver of one coordinator: appends to its internal topic, waits for their commit, loading, and the clock."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from kraft.broker.coordinator.coordinator import Coordinator
from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.coordinator.loading import load_batches
from kraft.broker.coordinator.shard import Producer, Record, Shard
from kraft.protocol.error_codes import ErrorCode
from kraft.runtime.base.alarm import Alarm
from kraft.runtime.base.time_slices import TimeSlice
from kraft_native.base.errors import KraftError, NotEnoughReplicasError
from kraft_native.batch.records import BatchBuilder
from kraft_native.facade.log import Log
from kraft_native.partition.cold_read import ColdReader
from kraft_native.partition.partition import Partition
from kraft_native.partition.table import PartitionTable

log = logging.getLogger(__name__)

LOAD_BYTES: Final = 1 << 20
WAIT_AGAIN_SECONDS: Final = 0.1
FIRST_SEQUENCE: Final = 0          # of every batch of a coordinator, whose appends no sequence checks
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


class CoordinatorAppends:
    """The coordinator's port to the logs: one batch per write, and a call when it is committed.

    `coordinator` is set once it exists: it is created with this port.
    """

    def __init__(self, topic: str, table: PartitionTable, clock: Callable[[], int], codec: int = 0) -> None:
        self.topic = topic
        self.table = table
        self.clock = clock
        self.codec = CODECS[codec]
        self.coordinator: Coordinator[Any] | None = None
        self._again: dict[Partition, asyncio.TimerHandle] = {}
        self._watched: dict[Partition, int] = {}
        """Partitions with a watch, and the end offset that was requested last."""

    def append(self, partition: int, records: Sequence[Record], producer: Producer | None = None) -> int:
        """See `AppendPort`. Without the minimum of in-sync replicas nothing is appended: a record that cannot be
        committed now must not take effect after its client was refused (KAFKA-9666)."""
        target = self.table.get(self.topic, partition)
        if target is None:
            raise RefusedError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic}-{partition} is not on this node")
        progress = target.progress
        if target.is_leader and progress.in_sync_count < min(target.min_insync_replicas, len(progress) + 1):
            raise NotEnoughReplicasError(f"{target!r}: {progress.in_sync_count} replicas are in sync")
        builder = BatchBuilder(self.codec, transactional=producer is not None)
        for record in records:
            builder.append(record.value, record.key, record.timestamp_ms)
        if producer is None:
            batch = builder.build()
        else:
            batch = builder.build(producer_id=producer.producer_id, producer_epoch=producer.epoch,
                                  base_sequence=FIRST_SEQUENCE)
        info = target.append(batch, origin="coordinator", now_ms=self.clock())
        self._watch(target, info.last_offset + 1)
        return info.first_offset

    def watch(self, partition: int, end_offset: int) -> None:
        """See `AppendPort`. A partition that this node does not have commits nothing."""
        target = self.table.get(self.topic, partition)
        if target is not None:
            self._watch(target, end_offset)

    def _watch(self, partition: Partition, end_offset: int) -> None:
        """Notify the coordinator when everything below `end_offset` is committed, however long that takes, also across
        newer epochs of this leader. The coordinator decides what its clients wait for. A partition has one watch at a
        time: appends that are committed together are reported together."""
        watched = self._watched.get(partition)
        self._watched[partition] = end_offset if watched is None else max(watched, end_offset)
        if watched is None:
            partition.call_when_committed(end_offset, partial(self._committed, partition))

    def close(self) -> None:
        """Stop notifying the coordinator."""
        for timer in self._again.values():
            timer.cancel()
        self.coordinator = None

    def _committed(self, partition: Partition, code: int) -> None:
        end_offset = self._watched.pop(partition)
        if self.coordinator is None:
            return
        if code == 0:
            committed = partition.high_watermark
            self.coordinator.committed(partition.index, committed, self.clock())
            if end_offset > committed:
                self._watch(partition, end_offset)
        elif self._may_continue(partition) and partition not in self._again:
            loop = asyncio.get_running_loop()
            self._again[partition] = loop.call_later(WAIT_AGAIN_SECONDS, self._watch_again, partition)

    def _watch_again(self, partition: Partition) -> None:
        del self._again[partition]
        if self._may_continue(partition):
            self._watch(partition, partition.log.log_end_offset)

    @staticmethod
    def _may_continue(partition: Partition) -> bool:
        return partition.is_leader and not partition.removed and partition.log.failure is None


class LoadTimes:
    """Times of the loads of partitions since the start."""

    __slots__ = ("count", "max_ms", "total_ms")

    def __init__(self) -> None:
        self.count = self.max_ms = self.total_ms = 0

    def note(self, time_ms: int) -> None:
        self.count += 1
        self.total_ms += time_ms
        self.max_ms = max(self.max_ms, time_ms)

    @property
    def average_ms(self) -> float:
        """Average; 0 without a load."""
        return self.total_ms / max(1, self.count)


class CoordinatorDriver:
    """Loading of the partitions that this node leads, and the coordinator's deadlines. Loop thread only."""

    def __init__(self, coordinator: Coordinator[Any], appends: CoordinatorAppends, clock: Callable[[], int],
                 on_failure: Callable[[BaseException], object], cold_reader: ColdReader,
                 load_bytes: int = LOAD_BYTES) -> None:
        """`load_bytes`: the size of one read while a partition is loaded."""
        self.coordinator = coordinator
        self.appends = appends
        self.clock = clock
        self.cold_reader = cold_reader
        self.load_bytes = load_bytes
        self.load_times = LoadTimes()
        self.deadlines = coordinator.shards.deadlines
        self._on_failure = on_failure
        self._loading: set[asyncio.Task[None]] = set()
        self._alarm = Alarm(clock, self._tick)

    def lead(self, partition: Partition) -> None:
        """Load a partition of the topic in small slices, because this node became its leader."""
        shards = self.coordinator.shards
        if shards.start_load(partition.index, partition.leader_epoch):
            task = asyncio.get_running_loop().create_task(self._load(partition, shards.loading(partition.index)))
            self._loading.add(task)
            task.add_done_callback(self._loading.discard)

    def resign(self, index: int, leader_epoch: int | None) -> None:
        """Give up the coordination of a partition that this node does not lead."""
        self.coordinator.shards.resign(index, leader_epoch)

    async def _load(self, partition: Partition, shard: Shard | None) -> None:
        """Load one partition. Ends early with this leadership: then the shard is another one, or none."""
        shards, index = self.coordinator.shards, partition.index
        began_ms = self.clock()
        try:
            time_slice, offset = TimeSlice(), partition.log.log_start_offset
            await self._turn(partition.log, offset)
            while shards.loading(index) is shard and offset < partition.log.log_end_offset:
                read = partition.log.read(offset, self.load_bytes, "log_end")
                before = offset
                for end in load_batches(shards, index, read):
                    offset = end
                    await time_slice.give_way()
                    if shards.loading(index) is not shard:
                        return
                if offset == before:
                    break
                await self._turn(partition.log, offset)
            if shards.loading(index) is shard:
                now_ms = self.clock()
                self.load_times.note(max(0, now_ms - began_ms))
                shards.finish_load(index, offset, partition.high_watermark, now_ms)
                if partition.high_watermark < offset:
                    self.appends.watch(index, offset)       # from the previous leader; followers confirm it
                self.schedule()
        except KraftError:
            log.exception("%s-%d cannot be loaded: its keys have no coordinator here", self.appends.topic, index)
            if shards.loading(index) is shard:
                shards.fail_load(index)
        except Exception as error:  # noqa: BLE001 - keys that never come to be served would be worse
            self._on_failure(error)

    async def _turn(self, source: Log, offset: int) -> None:
        """Yield to the loop, at least until the data to load next is in memory."""
        ready = asyncio.Event()
        if self.cold_reader.warm_read(source, offset, self.load_bytes, ready.set):
            await ready.wait()
        else:
            await asyncio.sleep(0)

    def schedule(self) -> None:
        """Set the alarm for the coordinator's deadline. Call it after anything that may have moved the deadline; while
        `deadlines.is_earlier` is False, there is nothing to do."""
        if self.deadlines.is_earlier:
            self._set_alarm()

    def _set_alarm(self) -> None:
        self.deadlines.is_earlier = False
        if (deadline_ms := self.coordinator.deadline_ms) is not None:
            self._alarm.set(deadline_ms)

    def _tick(self) -> None:
        try:
            self.coordinator.tick(self.clock())
        except Exception as error:  # noqa: BLE001 - whatever it is, the coordinator's state can no longer be trusted
            self._on_failure(error)
            return
        self._set_alarm()

    def close(self) -> None:
        """Stop loading, and the clock."""
        self.appends.close()
        for task in self._loading:
            task.cancel()
        self._alarm.cancel()
