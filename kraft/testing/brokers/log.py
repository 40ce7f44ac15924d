"""One replica's log in memory: batches, leader epochs (KIP-101), the state of idempotent producers, and what a loss of
power leaves of it. The rules are those of `kraft_native.log`, `.epochs` and `.producers`; bytes, segments and torn
writes are the crash kit's business.
"""

from bisect import bisect_left, bisect_right
from random import Random
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID
from zlib import crc32

from kraft.testing.sim.violation import ViolationError

LINK: Final = Struct("<qqiiiii")
BATCHES_KEPT: Final = 5
"""So many batches of a producer are known again."""


class Batch(NamedTuple):
    """`value` is the number of its first record, as its producer counts them. `chain` is a checksum over this batch and
    all before it, `before` that of the batch before: logs that agree in it agree in all."""

    base_offset: int
    end_offset: int
    epoch: int
    producer: int
    producer_epoch: int
    sequence: int
    value: int
    before: int
    chain: int


def made_batch(base_offset: int, count: int, epoch: int, producer: int, producer_epoch: int, sequence: int, value: int,
               before: int) -> Batch:
    end_offset = base_offset + count
    chain = crc32(LINK.pack(base_offset, end_offset, epoch, producer, producer_epoch, sequence, value), before)
    return Batch(base_offset, end_offset, epoch, producer, producer_epoch, sequence, value, before, chain)


class ProducerState(NamedTuple):
    """`batches`: (sequence, end offset) of the last ones."""

    epoch: int
    batches: tuple[tuple[int, int], ...]

    def with_batch(self, batch: Batch) -> "ProducerState":
        earlier = self.batches if batch.producer_epoch == self.epoch else ()
        return ProducerState(batch.producer_epoch, (*earlier, (batch.sequence, batch.end_offset))[-BATCHES_KEPT:])


NO_STATE: Final = ProducerState(-1, ())


class ReplicaLog:
    """`durable_end`: everything below survives a loss of power. `epochs`: (epoch, first offset), both ascending.
    `start_chain`: that of everything before the log start; None when that was never here. `is_offline`: its directory
    failed, nothing becomes durable any more."""

    def __init__(self, topic_id: UUID) -> None:
        self.topic_id = topic_id
        self.batches: list[Batch] = []
        self._ends: list[int] = []
        self.start_offset = 0
        self.start_chain: int | None = 0
        self.end_offset = 0
        self.durable_end = 0
        self.is_offline = False
        self.high_watermark = 0
        self.saved_high_watermark = 0
        self.epochs: list[tuple[int, int]] = []
        self.producers: dict[int, ProducerState] = {}
        self._start_producers: dict[int, ProducerState] = {}

    # --- writing ------------------------------------------------------------------------------------------------------

    def append(self, batch: Batch) -> None:
        if batch.base_offset != self.end_offset:
            raise ViolationError("LogMatching", f"{batch} is appended to a log that ends at {self.end_offset}")
        self.begin_epoch(batch.epoch)
        self.batches.append(batch)
        self._ends.append(batch.end_offset)
        self.end_offset = batch.end_offset
        self._note_producer(batch)

    def _note_producer(self, batch: Batch) -> None:
        self.producers[batch.producer] = self.producers.get(batch.producer, NO_STATE).with_batch(batch)

    def begin_epoch(self, epoch: int) -> None:
        """The epoch starts at the log end, unless it is the latest already."""
        self.forget_epochs()
        if self.epochs and self.epochs[-1][0] == epoch:
            return
        while self.epochs and self.epochs[-1][0] >= epoch:
            self.epochs.pop()
        self.epochs.append((epoch, self.end_offset))

    def truncate_to(self, offset: int) -> None:
        """Drops the batch that holds `offset` and all behind it; the high watermark goes back if it must."""
        if offset < self.start_offset:
            self.restart_at(offset)
            return
        keep = bisect_right(self._ends, offset)
        if keep == len(self.batches):
            self.forget_epochs()       # one may have been noted at the log end without a batch (KAFKA-10706)
            return
        del self.batches[keep:], self._ends[keep:]
        self.end_offset = self._ends[-1] if self._ends else self.start_offset
        self.forget_epochs()
        self.durable_end = min(self.durable_end, self.end_offset)
        self.high_watermark = min(self.high_watermark, self.end_offset)
        self.saved_high_watermark = min(self.saved_high_watermark, self.end_offset)
        self.rebuild_producers()

    def forget_epochs(self) -> None:
        """Those that start at the log end or behind it."""
        while self.epochs and self.epochs[-1][1] >= self.end_offset:
            self.epochs.pop()

    def rebuild_producers(self) -> None:
        """From what is left."""
        self.producers = dict(self._start_producers)
        for batch in self.batches:
            self._note_producer(batch)

    def restart_at(self, offset: int) -> None:
        """Drops everything; the next record gets `offset`."""
        self.batches.clear()
        self._ends.clear()
        self.epochs.clear()
        self.producers.clear()
        self._start_producers.clear()
        self.start_offset = self.end_offset = self.durable_end = offset
        self.start_chain = 0 if offset == 0 else None
        self.reset_marks(offset)

    def reset_marks(self, offset: int) -> None:
        self.high_watermark = self.saved_high_watermark = offset

    def delete_before(self, offset: int) -> None:
        """The log starts there: at the end of a batch, and not behind the high watermark."""
        drop = bisect_right(self._ends, offset)
        if drop == 0:
            return
        self.start_chain = self.batches[drop - 1].chain
        self.start_offset = self._ends[drop - 1]
        known = self._start_producers
        for batch in self.batches[:drop]:
            known[batch.producer] = known.get(batch.producer, NO_STATE).with_batch(batch)
        del self.batches[:drop], self._ends[:drop]
        while len(self.epochs) > 1 and self.epochs[1][1] < self.start_offset:
            del self.epochs[0]
        self.durable_end = max(self.durable_end, self.start_offset)
        self.saved_high_watermark = max(self.saved_high_watermark, self.start_offset)
        self.high_watermark = max(self.high_watermark, self.start_offset)

    # --- looking ------------------------------------------------------------------------------------------------------

    @property
    def chain(self) -> int | None:
        """Of the whole log; None when nobody knows."""
        return self.batches[-1].chain if self.batches else self.start_chain

    def chain_at(self, offset: int) -> int | None:
        """Of everything before `offset`; None when that is not known, or no batch ends there."""
        if offset == self.start_offset:
            return self.start_chain
        index = bisect_left(self._ends, offset)
        found = index < len(self._ends) and self._ends[index] == offset
        return self.batches[index].chain if found else None

    def has_boundary(self, offset: int) -> bool:
        """Whether a batch ends there, or the log starts."""
        index = bisect_left(self._ends, offset)
        return offset == self.start_offset or (index < len(self._ends) and self._ends[index] == offset)

    def read(self, offset: int, limit: int, batches_max: int) -> tuple[Batch, ...]:
        """From the batch that holds `offset` on, none that ends behind `limit`."""
        first = bisect_right(self._ends, offset)
        return tuple(self.batches[first:min(first + batches_max, bisect_right(self._ends, limit))])

    def between(self, start_offset: int, end_offset: int) -> list[Batch]:
        """The batches that end behind `start_offset` and not behind `end_offset`."""
        return self.batches[bisect_right(self._ends, start_offset):bisect_right(self._ends, end_offset)]

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """What OffsetForLeaderEpoch answers: (epoch, end offset), (-1, -1) when it is not known."""
        if not self.epochs or epoch < 0:
            return -1, -1
        if epoch == self.epochs[-1][0]:
            return epoch, self.end_offset
        higher = bisect_right(self.epochs, epoch, key=lambda entry: entry[0])
        if higher == len(self.epochs):
            return -1, -1
        return (epoch if higher == 0 else self.epochs[higher - 1][0]), self.epochs[higher][1]

    def epoch_at(self, offset: int) -> int:
        """The epoch in force there, -1 when none is."""
        higher = bisect_right(self.epochs, offset, key=lambda entry: entry[1])
        return self.epochs[higher - 1][0] if higher else -1

    # --- death --------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        self.durable_end = self.end_offset

    def lose_power(self, random: Random) -> int:
        """What was not flushed is lost, from some batch on; gives how many batches are."""
        at_risk = len(self.batches) - bisect_right(self._ends, self.durable_end)
        lost = random.randrange(at_risk + 1) if random.random() < 0.7 else at_risk
        if lost:
            del self.batches[-lost:], self._ends[-lost:]
            self.end_offset = self._ends[-1] if self._ends else self.start_offset
        return lost

    def reopen(self) -> None:
        """As a process finds it that starts: epochs without a batch were never written."""
        self.forget_epochs()
        self.high_watermark = min(self.saved_high_watermark, self.end_offset)
        self.saved_high_watermark = self.high_watermark
        self.durable_end = self.end_offset
        self.rebuild_producers()
