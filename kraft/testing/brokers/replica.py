"""A replica on a simulated broker: the compiled partition, and what the judges have seen of it."""

from dataclasses import dataclass
from typing import Final, Literal, Protocol

from kraft.broker.isr import Key
from kraft.metadata.image import MetadataImage
from kraft.testing.brokers.log_view import UNCHANGED, Batch, LogView
from kraft_native.partition.partition import Partition

PAGE_CACHE: Final = 0
GROUP_COMMIT: Final = 1
PER_APPEND: Final = 2
DURABILITIES: Final[tuple[Literal["page-cache", "group-commit", "per-append"], ...]] = (
    "page-cache", "group-commit", "per-append")


class Judge(Protocol):
    """An observer that is called with what replicas did."""

    def leads(self, replica: "Replica") -> None: ...
    def appended(self, replica: "Replica", batch: Batch) -> None: ...
    def cut(self, replica: "Replica") -> None: ...
    def exposed(self, replica: "Replica") -> None: ...


@dataclass(slots=True, eq=False)
class Replica:
    """A replica of one partition on broker `broker_id`.

    `log` is the judges' view of its log. `shown` is the high watermark that it last had as a leader when the run was
    checked. `seen` is the one that the judges know of.
    """

    broker_id: int
    key: Key
    partition: Partition
    log: LogView
    shown: int = 0
    seen: int = 0
    led_epoch: int = -1
    _last_state: tuple[object, ...] | None = None
    _last_image: MetadataImage | None = None

    def __str__(self) -> str:
        return f"{self.topic}-{self.index} on broker {self.broker_id} in epoch {self.leader_epoch}"

    @property
    def topic(self) -> str:
        return self.partition.topic

    @property
    def index(self) -> int:
        return self.partition.index

    @property
    def leader_epoch(self) -> int:
        return self.partition.leader_epoch

    @property
    def is_leader(self) -> bool:
        return self.partition.is_leader

    @property
    def high_watermark(self) -> int:
        return self.partition.high_watermark

    @property
    def has_unflushed(self) -> bool:
        """Return whether the flusher has something to do for the log."""
        log = self.partition.log
        return not log.closed and log.durable_end_offset < log.log_end_offset

    def awaited(self) -> dict[int, int]:
        """Log ends of the replicas that the high watermark waits for, by broker. With group commit the leader's own is
        the end of its durable records."""
        log = self.partition.log
        own = log.durable_end_offset if log.config.durability == DURABILITIES[GROUP_COMMIT] else log.log_end_offset
        found = {self.broker_id: own}
        for node_id, (end, is_in_sync) in self.partition.progress.followers().items():
            if is_in_sync:
                found[node_id] = end
        return found

    @property
    def has_minimum(self) -> bool:
        progress = self.partition.progress
        return progress.in_sync_count >= min(self.partition.min_insync_replicas, len(progress) + 1)

    def has_changed(self, image: MetadataImage) -> bool:
        """Return whether something has changed since the last call that the checks after an event depend on. `image`:
        the committed metadata."""
        partition = self.partition
        log = partition.log
        if log.closed:
            return True
        state: tuple[object, ...] = (
            log.log_end_offset, log.log_start_offset, log.truncation_generation, partition.high_watermark,
            partition.leader_epoch)
        if partition.is_leader:
            progress = partition.progress
            state += (log.durable_end_offset, progress.followers(), progress.in_sync_count,
                      partition.min_insync_replicas)
        if state == self._last_state and image is self._last_image:
            return False
        self._last_state, self._last_image = state, image
        return True

    def observe(self, judge: Judge) -> None:
        """Report to the judge what has changed since the last call."""
        partition = self.partition
        if partition.log.closed:
            return
        change = self.log.read_back(partition.log)
        high_watermark = partition.high_watermark
        if change is not UNCHANGED:
            if change.is_cut:
                self.seen = min(self.seen, high_watermark)
                judge.cut(self)
            for batch in change.fresh:
                judge.appended(self, batch)
        if partition.is_leader and partition.leader_epoch > self.led_epoch:
            self.led_epoch = partition.leader_epoch
            judge.leads(self)
        if high_watermark > self.seen:
            self.seen = high_watermark
            judge.exposed(self)
