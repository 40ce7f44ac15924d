"""Drives the group coordinator: its appends to `__consumer_offsets`, what they wait for, loading, and its clock."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.coordinator.loading import load_batches
from kraft.broker.coordinator.shard import Record
from kraft.broker.groups.coordinator import GroupCoordinator
from kraft.broker.internal_topics import OFFSETS_TOPIC
from kraft.protocol.error_codes import ErrorCode
from kraft_native.errors import KraftError
from kraft_native.partition import Partition
from kraft_native.records import BatchBuilder
from kraft_native.table import PartitionTable

log = logging.getLogger(__name__)

LOAD_BYTES: Final = 1 << 20
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


class OffsetsAppends:
    """The coordinator's way to the logs: one batch per write, told when it is committed.

    `coordinator` is set once it exists: it is made with this port.
    """

    def __init__(self, table: PartitionTable, clock: Callable[[], int], codec: int) -> None:
        self.table = table
        self.clock = clock
        self.codec = CODECS[codec]
        self.coordinator: GroupCoordinator | None = None

    def append(self, partition: int, records: Sequence[Record]) -> int:
        """See `AppendPort`."""
        target = self.table.get(OFFSETS_TOPIC, partition)
        if target is None:
            raise RefusedError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{OFFSETS_TOPIC}-{partition} is not on this node")
        builder = BatchBuilder(self.codec)
        for record in records:
            builder.append(record.value, record.key, record.timestamp_ms)
        info = target.append(builder.build(), origin="coordinator", now_ms=self.clock())
        target.call_when_committed(info.last_offset + 1, lambda code: self._committed(target, code))
        return info.first_offset

    def _committed(self, partition: Partition, code: int) -> None:
        """What is not committed in time is the coordinator's own to notice."""
        if code == 0 and self.coordinator is not None:
            self.coordinator.committed(partition.index, partition.high_watermark, self.clock())


class GroupDriver:
    """Loads the partitions that this node leads, and keeps the coordinator's deadlines. Loop thread only."""

    def __init__(self, coordinator: GroupCoordinator, table: PartitionTable, clock: Callable[[], int],
                 on_failure: Callable[[BaseException], object]) -> None:
        self.coordinator = coordinator
        self.table = table
        self.clock = clock
        self._on_failure = on_failure
        self._loading: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None

    def lead(self, partition: Partition) -> None:
        """This node became the leader of a partition of `__consumer_offsets`: loads it in small turns."""
        if self.coordinator.shards.start_load(partition.index, partition.leader_epoch):
            task = asyncio.get_running_loop().create_task(self._load(partition))
            self._loading.add(task)
            task.add_done_callback(self._loading.discard)

    def resign(self, index: int, leader_epoch: int | None) -> None:
        """This node leads that partition no more."""
        self.coordinator.shards.resign(index, leader_epoch)

    async def _load(self, partition: Partition) -> None:
        shards, epoch = self.coordinator.shards, partition.leader_epoch
        offset = partition.log.log_start_offset
        try:
            while offset < partition.log.log_end_offset and not partition.removed:
                read = partition.log.read(offset, LOAD_BYTES, "log_end")
                after = load_batches(shards, partition.index, read)
                if after is None:
                    break
                offset = after
                await asyncio.sleep(0)
                if partition.leader_epoch != epoch:
                    return
            if not partition.removed:
                shards.finish_load(partition.index, offset, partition.high_watermark, self.clock())
                self.schedule()
        except KraftError:
            log.exception("%s-%d cannot be loaded: its groups have no coordinator here", OFFSETS_TOPIC, partition.index)
            shards.fail_load(partition.index)

    def schedule(self) -> None:
        """Arms the clock for the coordinator's deadline. Call it after whatever may have moved that."""
        deadline_ms = self.coordinator.deadline_ms
        if deadline_ms == self._timer_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ms = deadline_ms
        if deadline_ms is not None:
            delay = max(0, deadline_ms - self.clock()) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._timer_ms = None
        try:
            self.coordinator.tick(self.clock())
        except Exception as error:  # noqa: BLE001 - whatever it is, the coordinator's state can no longer be trusted
            self._on_failure(error)
            return
        self.schedule()

    def close(self) -> None:
        """Stops loading and the clock."""
        for task in self._loading:
            task.cancel()
        if self._timer is not None:
            self._timer.cancel()
