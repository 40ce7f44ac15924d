"""The judges' view of one replica's log: the batches that are in its files, read back after each event.

It decides nothing. The log itself is the compiled one (`kraft_native.facade.log`).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID
from zlib import crc32

from kraft.testing.sim.violation import ViolationError
from kraft_native.base.errors import CorruptLogError, CorruptRecordError
from kraft_native.batch.batch import Batch as StoredBatch
from kraft_native.batch.batch import walk
from kraft_native.batch.records import BatchBuilder, records
from kraft_native.facade.log import Log

LINK: Final = Struct("<qqiIq")
VALUE_BYTES: Final = 8
NO_VALUE: Final = -1
"""Value of a batch that no simulated producer sent: markers, and records of coordinators."""
READ_BYTES: Final = 1 << 20
WALL_MS: Final = 1_700_000_000_000
"""Wall clock of all nodes when a run begins."""


class Batch(NamedTuple):
    """A batch of records.

    `value` is the number of its first record, as its producer counts them, or `NO_VALUE`. `chain` is a checksum over
    this batch and all before it; `before` is the chain of the previous batch. Logs with the same chain are the same up
    to there. Both are None where the batches before are unknown.
    """

    base_offset: int
    end_offset: int
    epoch: int
    producer: int
    producer_epoch: int
    sequence: int
    value: int
    before: int | None
    chain: int | None
    crc: int


def encoded_batch(producer: int, producer_epoch: int, sequence: int, value: int, count: int, *,
                  transactional: bool = False) -> bytes:
    """Encode a batch as a producer sends it: record `value` and those after it."""
    builder = BatchBuilder(transactional=transactional)
    for number in range(value, value + count):
        builder.append(number.to_bytes(VALUE_BYTES, "big"), None, WALL_MS)
    return builder.build(producer_id=producer, producer_epoch=producer_epoch, base_sequence=sequence)


def decoded_batches(data: bytes, before: int | None) -> Iterator[Batch]:
    """Yield the whole batches in `data`. `before` is the chain up to the first one."""
    for each in walk(data):
        end_offset = each.last_offset + 1
        chain = None if before is None else crc32(
            LINK.pack(each.base_offset, end_offset, each.leader_epoch, each.crc, each.producer_id), before)
        yield Batch(each.base_offset, end_offset, each.leader_epoch, each.producer_id, each.producer_epoch,
                    each.base_sequence, _value_of(each), before, chain, each.crc)
        before = chain


def _value_of(batch: StoredBatch) -> int:
    value = None if batch.is_control else next(records(batch)).value
    return NO_VALUE if value is None or len(value) != VALUE_BYTES else int.from_bytes(value, "big")


class Change(NamedTuple):
    """Change of a log by an event. `is_cut`: batches were removed from its end."""

    is_cut: bool
    fresh: list[Batch]


UNCHANGED: Final = Change(is_cut=False, fresh=[])


class LogView:
    """The batches of one log from its start on.

    `durable_end`: everything below survives a loss of power. `start_chain`: the chain up to the log start, None where
    it is unknown. `chain_before(offset)` returns the chain of all committed records before an offset.
    """

    def __init__(self, topic_id: UUID, chain_before: Callable[[int], int | None]) -> None:
        self.topic_id = topic_id
        self._chain_before = chain_before
        self._generation = -1
        self.batches: list[Batch] = []
        self._ends: list[int] = []
        self.start_offset = 0
        self.start_chain: int | None = 0
        self.end_offset = 0
        self.durable_end = 0

    # --- reading back -------------------------------------------------------------------------------------------------

    def read_back(self, log: Log) -> Change:
        """Note what has changed in the log since the last call. LogIsReadable: no fault of these runs damages bytes, so
        all of them can be read."""
        try:
            return self._read_back(log)
        except (CorruptLogError, CorruptRecordError) as error:
            raise ViolationError("LogIsReadable", f"a log of topic {self.topic_id}: {error}") from error

    def _read_back(self, log: Log) -> Change:
        generation, start, end = log.truncation_generation, log.log_start_offset, log.log_end_offset
        if end == self.end_offset and start == self.start_offset and generation == self._generation:
            return UNCHANGED
        is_cut = False
        if generation != self._generation:
            self._generation = generation
            is_cut = self._compare(log, start, end)
        elif start > self.start_offset:
            self._delete_before(start)
        fresh = self._append_from(log, end) if end > self.end_offset else []
        return Change(is_cut, fresh)

    def _compare(self, log: Log, start: int, end: int) -> bool:
        """Read the log from its start, and keep what is the same. Return whether batches are missing."""
        if start > self.end_offset:
            self._restart(start)
            return True
        if start > self.start_offset:
            self._delete_before(start)
        known, same = self.batches, 0
        if known and start == self.start_offset < end:
            for ours, theirs in zip(known, decoded_batches(_read(log, start, end), known[0].before), strict=False):
                if ours != theirs:
                    break
                same += 1
        is_cut = same < len(known)
        if same:
            self._keep(same)
        else:
            self._restart(start)
        return is_cut

    def _append_from(self, log: Log, end: int) -> list[Batch]:
        data = _read(log, self.end_offset, end)
        chain = self.chain
        if not self.batches and chain is None:
            chain = self._chain_before(next(iter(walk(data))).base_offset)
        fresh = list(decoded_batches(data, chain))
        self.batches += fresh
        self._ends += [batch.end_offset for batch in fresh]
        self.end_offset = end
        return fresh

    def _restart(self, start: int) -> None:
        self.batches.clear()
        self._ends.clear()
        if start != self.start_offset or start == 0:
            self.start_chain = self._chain_before(start)
        self.start_offset = self.end_offset = self.durable_end = start

    def _delete_before(self, start: int) -> None:
        drop = bisect_right(self._ends, start)
        if drop:
            last = self.batches[drop - 1]
            self.start_chain = last.chain if last.end_offset == start else None
            del self.batches[:drop], self._ends[:drop]
        elif start > self.start_offset:
            self.start_chain = None
        self.start_offset = start
        self.end_offset = max(self.end_offset, start)
        self.durable_end = max(self.durable_end, start)

    def _keep(self, count: int) -> None:
        del self.batches[count:], self._ends[count:]
        self.end_offset = self._ends[-1] if self._ends else self.start_offset
        self.durable_end = min(self.durable_end, self.end_offset)

    def drop(self, count: int) -> None:
        """Remove the last `count` batches, which were lost with the power."""
        if count:
            self._keep(len(self.batches) - count)

    @property
    def at_risk(self) -> int:
        """Number of batches that a loss of power may take."""
        return len(self.batches) - bisect_right(self._ends, self.durable_end)

    # --- questions ----------------------------------------------------------------------------------------------------

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

    def between(self, start_offset: int, end_offset: int) -> list[Batch]:
        """Return the batches that end after `start_offset` and not after `end_offset`."""
        return self.batches[bisect_right(self._ends, start_offset):bisect_right(self._ends, end_offset)]


def _read(log: Log, start: int, end: int) -> bytes:
    """Return the batches from the one that holds `start` on."""
    parts = []
    while start < end:
        piece = log.read(start, READ_BYTES, "log_end")
        parts.append(bytes(piece))
        start = piece.next_offset
    return b"".join(parts)
