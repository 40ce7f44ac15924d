"""One replica's log in memory: batches, leader epochs (KIP-101), the state of idempotent producers, and the effect of a
loss of power. The rules are those of `kraft_native.facade.log`, and of `.epochs` and `.producers` of
`kraft_native.segment`. Bytes, segments and torn writes are covered by the crash kit."""

from bisect import bisect_left, bisect_right
from random import Random
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID
from zlib import crc32

from kraft.testing.sim.violation import ViolationError

LINK: Final = Struct("<qqiiiii")
BATCHES_KEPT: Final = 5
"""Number of a producer's latest batches that are recognised as duplicates."""


class Batch(NamedTuple):
    """A batch of records.

    `value` is the number of its first record, as its producer counts them. `chain` is a checksum over this batch and
    all before it; `before` is the chain of the previous batch. Logs with the same chain are the same up to there.
    """

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
    """State of one producer. `batches`: (sequence, end offset) of its latest batches."""

    epoch: int
    batches: tuple[tuple[int, int], ...]

    def with_batch(self, batch: Batch) -> "ProducerState":
        earlier = self.batches if batch.producer_epoch == self.epoch else ()
        return ProducerState(batch.producer_epoch, (*earlier, (batch.sequence, batch.end_offset))[-BATCHES_KEPT:])


NO_STATE: Final = ProducerState(-1, ())


class ReplicaLog:
    """A replica's log.

    `durable_end`: everything below survives a loss of power. `epochs`: (epoch, first offset), both ascending.
    `start_chain`: the chain of everything before the log start; None when those batches were never here. `is_offline`:
    its directory failed, so nothing becomes durable any more.
    """

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
        """Start the epoch at the log end, unless it is already the latest."""
        self.forget_epochs()
        if self.epochs and self.epochs[-1][0] == epoch:
            return
        while self.epochs and self.epochs[-1][0] >= epoch:
            self.epochs.pop()
        self.epochs.append((epoch, self.end_offset))

    def truncate_to(self, offset: int) -> None:
        """Drop the batch that holds `offset` and all after it. Lower the high watermark if it must."""
        if offset < self.start_offset:
            self.restart_at(offset)
            return
        keep = bisect_right(self._ends, offset)
        if keep == len(self.batches):
            self.forget_epochs()       # an epoch may be noted at the log end without a batch (KAFKA-10706)
            return
        del self.batches[keep:], self._ends[keep:]
        self.end_offset = self._ends[-1] if self._ends else self.start_offset
        self.forget_epochs()
        self.durable_end = min(self.durable_end, self.end_offset)
        self.high_watermark = min(self.high_watermark, self.end_offset)
        self.saved_high_watermark = min(self.saved_high_watermark, self.end_offset)
        self.rebuild_producers()

    def forget_epochs(self) -> None:
        """Remove the epochs that start at or after the log end."""
        while self.epochs and self.epochs[-1][1] >= self.end_offset:
            self.epochs.pop()

    def rebuild_producers(self) -> None:
        """Rebuild the producer states from the remaining batches."""
        self.producers = dict(self._start_producers)
        for batch in self.batches:
            self._note_producer(batch)

    def restart_at(self, offset: int) -> None:
        """Drop everything; the next record gets `offset`."""
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
        """Start the log at the last batch end at or below `offset`, which is not above the high watermark."""
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

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def chain(self) -> int | None:
        """Chain of the whole log; None when it is unknown."""
        return self.batches[-1].chain if self.batches else self.start_chain

    def chain_at(self, offset: int) -> int | None:
        """Return the chain of everything before `offset`; None when it is unknown, or no batch ends there."""
        if offset == self.start_offset:
            return self.start_chain
        index = bisect_left(self._ends, offset)
        found = index < len(self._ends) and self._ends[index] == offset
        return self.batches[index].chain if found else None

    def has_boundary(self, offset: int) -> bool:
        """Return whether a batch ends there, or the log starts."""
        index = bisect_left(self._ends, offset)
        return offset == self.start_offset or (index < len(self._ends) and self._ends[index] == offset)

    def read(self, offset: int, limit: int, batches_max: int) -> tuple[Batch, ...]:
        """Return batches from the one that holds `offset` on; none of them ends after `limit`."""
        first = bisect_right(self._ends, offset)
        return tuple(self.batches[first:min(first + batches_max, bisect_right(self._ends, limit))])

    def between(self, start_offset: int, end_offset: int) -> list[Batch]:
        """Return the batches that end after `start_offset` and not after `end_offset`."""
        return self.batches[bisect_right(self._ends, start_offset):bisect_right(self._ends, end_offset)]

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """Return the answer to OffsetForLeaderEpoch: (epoch, end offset), or (-1, -1) when it is unknown."""
        if not self.epochs or epoch < 0:
            return -1, -1
        if epoch == self.epochs[-1][0]:
            return epoch, self.end_offset
        higher = bisect_right(self.epochs, epoch, key=lambda entry: entry[0])
        if higher == len(self.epochs):
            return -1, -1
        return (epoch if higher == 0 else self.epochs[higher - 1][0]), self.epochs[higher][1]

    def epoch_at(self, offset: int) -> int:
        """Return the epoch of that offset; -1 when it has none."""
        higher = bisect_right(self.epochs, offset, key=lambda entry: entry[1])
        return self.epochs[higher - 1][0] if higher else -1

    # --- death --------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        self.durable_end = self.end_offset

    def lose_power(self, random: Random) -> int:
        """Lose unflushed batches, from a random one on; return the number of lost batches."""
        at_risk = len(self.batches) - bisect_right(self._ends, self.durable_end)
        lost = random.randrange(at_risk + 1) if random.random() < 0.7 else at_risk
        if lost:
            del self.batches[-lost:], self._ends[-lost:]
            self.end_offset = self._ends[-1] if self._ends else self.start_offset
        return lost

    def reopen(self) -> None:
        """Recover the log as a starting process does. Epochs without a batch were never written."""
        self.forget_epochs()
        self.high_watermark = min(self.saved_high_watermark, self.end_offset)
        self.saved_high_watermark = self.high_watermark
        self.durable_end = self.end_offset
        self.rebuild_producers()
