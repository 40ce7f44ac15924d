"""Transactions of a restore that ends before its backup does: each is in all of its partitions, or in none.

Partitions end one by one, so a transaction may lie on both sides of the end in one of them, and before it in another.
It is in the restore when

- one of its commit markers is before the end of its partition and not later than the point in time, and
- all of its records are before the ends of their partitions, and
- the same holds for the transactions of its producer before it.

Where it is open at the end then, it is committed there. All others are aborted: where they are open at the end, and
where a commit marker is before the end, which becomes an abort marker.

An epoch names one transaction of a producer (transaction.version 2): its markers have the next epoch. So what is in the
restore is one limit for each producer, an epoch. A producer with an earlier version has one epoch for all of its
transactions, and each partition ends them by itself. Memory grows with the number of producers, not of transactions.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from kraft.backups.manifest import Commit, PartitionCopy
from kraft.backups.store import Store
from kraft.backups.verify import read_segment
from kraft.client.partitions import Partition
from kraft_native.batch.batch import Batch, walk
from kraft_native.batch.control import ControlRecord, control_records, marker
from kraft_native.batch.records import records

COMMIT: Final = "COMMIT"
ABORT: Final = "ABORT"
WORKERS: Final = 2


class AsOf(NamedTuple):
    """Last offset, or last time in milliseconds, that a restore includes; both None: everything."""

    offset: int | None = None
    time_ms: int | None = None

    @property
    def is_end(self) -> bool:
        return self.offset is None and self.time_ms is None


class Decisions(NamedTuple):
    """Content of a restore. `ends`: the end offset of each partition. `commits`: transactions to commit where they
    are open at the end. `limits`: for a producer id the epoch from which on all of its transactions are aborted."""

    ends: Mapping[Partition, int]
    commits: tuple[Commit, ...]
    limits: Mapping[int, int]


class Epochs:
    """Sets of epochs, one for each producer id, as bits."""

    def __init__(self) -> None:
        self._bits: dict[int, bytearray] = {}

    def add(self, producer_id: int, epoch: int) -> None:
        """Add an epoch, 0 or more."""
        bits = self._bits.setdefault(producer_id, bytearray())
        if len(bits) <= epoch >> 3:
            bits.extend(bytes((epoch >> 3) + 1 - len(bits)))
        bits[epoch >> 3] |= 1 << (epoch & 7)

    def has(self, producer_id: int, epoch: int) -> bool:
        """Return whether an epoch was added."""
        bits = self._bits.get(producer_id, b"")
        return epoch >> 3 < len(bits) and bool(bits[epoch >> 3] & 1 << (epoch & 7))

    def add_all(self, other: Self) -> None:
        """Add what another one has."""
        for producer_id, bits in other._bits.items():
            own = self._bits.setdefault(producer_id, bytearray())
            own.extend(bytes(max(0, len(bits) - len(own))))
            for at, byte in enumerate(bits):
                own[at] |= byte


@dataclass
class Scan:
    """Transactions of one partition before and after its end. Epochs are those of the records."""

    copy: PartitionCopy
    end: int
    opened: dict[int, int] = field(default_factory=dict)
    """Transactions that are open at the end."""
    late: list[tuple[int, int]] = field(default_factory=list)
    """Transactions whose commit is before the end, but later than the point in time."""
    committed: Epochs = field(default_factory=Epochs)
    """Transactions with a commit that counts."""
    beyond: dict[int, int] = field(default_factory=dict)
    """The first epoch of each producer with records from the end on."""

    @property
    def partition(self) -> Partition:
        return self.copy.topic, self.copy.partition


def decide(store: Store, copies: Sequence[tuple[PartitionCopy, AsOf]], pending: Iterable[Commit],
           created_ms: int) -> Decisions:
    """Decide about all transactions of a backup. `copies`: its partitions, each with its own point; `pending` has the
    commits without a marker that were decided at `created_ms`, the time of the backup. Raises `CorruptFileError`."""
    pool = ThreadPoolExecutor(WORKERS)
    try:
        scans = list(pool.map(lambda each: scan(store, *each), copies))
    finally:
        pool.shutdown(cancel_futures=True)
    times = [as_of.time_ms for _, as_of in copies if as_of.time_ms is not None]
    return combine(scans, pending if all(each >= created_ms for each in times) else ())


def scan(store: Store, copy: PartitionCopy, as_of: AsOf) -> Scan:
    """Read one partition of a backup."""
    found = Scan(copy, copy.end_offset if as_of.offset is None else min(copy.end_offset, as_of.offset + 1))
    for segment in copy.segments:
        for batch in walk(read_segment(store, copy, segment).data, check_crc=False):
            if as_of.time_ms is not None and batch.base_offset < found.end and not batch.is_control:
                found.end = min(found.end, _first_later(batch, as_of.time_ms, found.end))
            if batch.is_control:
                _note_markers(found, batch, as_of)
            elif batch.is_transactional:
                _note_records(found, batch)
    return found


def combine(scans: Sequence[Scan], pending: Iterable[Commit] = ()) -> Decisions:
    """Decide from the scans of all partitions. A transaction of `pending` counts as committed when no end moved in any
    of its partitions."""
    committed = Epochs()
    for each in scans:
        committed.add_all(each.committed)
    uncut = {each.partition for each in scans if each.end >= each.copy.end_offset}
    known = {each.partition for each in scans}
    waiting: dict[tuple[int, int], list[Partition]] = {}
    for commit in pending:
        waiting.setdefault((commit.producer_id, commit.producer_epoch), []).append((commit.topic, commit.partition))
    for (producer_id, epoch), places in waiting.items():
        if epoch > 0 and uncut.issuperset(known.intersection(places)):
            committed.add(producer_id, epoch - 1)
    limits: dict[int, int] = {}
    for each in scans:
        excluded = [*each.beyond.items(), *(one for one in (*each.opened.items(), *each.late)
                                            if not committed.has(*one))]
        for producer_id, epoch in excluded:
            limits[producer_id] = min(epoch, limits.get(producer_id, epoch))
    commits = tuple(Commit(*each.partition, producer_id, epoch + 1) for each in scans
                    for producer_id, epoch in each.opened.items()
                    if committed.has(producer_id, epoch) and epoch < limits.get(producer_id, epoch + 1))
    return Decisions({each.partition: each.end for each in scans}, commits, limits)


def with_aborts(data: bytes, limits: Mapping[int, int]) -> bytes:
    """Return batches in which commit markers of excluded transactions are abort markers."""
    if not limits:
        return data
    parts, changed = [], False
    for batch in walk(data, check_crc=False):
        part = bytes(batch)
        if batch.is_control:
            found = control_records(part, check_crc=False)
            if any(_is_excluded(each, limits) for each in found):
                assert len(found) == 1, "a batch of markers has one"
                part, changed = _aborted(batch, found[0]), True
        parts.append(part)
    return b"".join(parts) if changed else data


def _is_excluded(each: ControlRecord, limits: Mapping[int, int]) -> bool:
    limit = limits.get(each.producer_id)
    return each.type_name == COMMIT and limit is not None and each.producer_epoch > limit


def _aborted(batch: Batch, commit: ControlRecord) -> bytes:
    return marker(commit=False, producer_id=commit.producer_id, producer_epoch=commit.producer_epoch,
                  coordinator_epoch=max(commit.coordinator_epoch or 0, 0), timestamp_ms=batch.max_timestamp_ms,
                  base_offset=batch.base_offset, leader_epoch=batch.leader_epoch)


def _first_later(batch: Batch, time_ms: int, end: int) -> int:
    """Return the offset of the first record of a batch that is later, `end` without any."""
    if batch.max_timestamp_ms <= time_ms:
        return end
    return next((each.offset for each in records(bytes(batch)) if each.timestamp_ms > time_ms), end)


def _note_records(found: Scan, batch: Batch) -> None:
    if batch.base_offset < found.end:
        found.opened[batch.producer_id] = batch.producer_epoch
    if batch.last_offset >= found.end:
        found.beyond.setdefault(batch.producer_id, batch.producer_epoch)


def _note_markers(found: Scan, batch: Batch, as_of: AsOf) -> None:
    if batch.base_offset >= found.end:
        return
    for each in control_records(bytes(batch), check_crc=False):
        if each.type_name not in (COMMIT, ABORT):
            continue
        epoch = found.opened.pop(each.producer_id, each.producer_epoch - 1)
        if each.type_name != COMMIT or each.producer_epoch <= epoch or epoch < 0:
            continue        # aborted; or of a producer whose epoch does not name the transaction
        if as_of.time_ms is None or batch.max_timestamp_ms <= as_of.time_ms:
            found.committed.add(each.producer_id, epoch)
        else:
            found.late.append((each.producer_id, epoch))
