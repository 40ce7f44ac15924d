"""`kraft log verify`: checks every checksum, every index entry, and the agreement of the files.

It checks:

- structure, CRC and order of all batches;
- that entries of both indexes point to valid starts of a look-up;
- that the transaction index has every aborted transaction;
- that the leader-epoch checkpoint has every batch's epoch;
- the checksums of the producer snapshots.

The work per batch is compiled; Python processes a run of batches at a time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kraft.files.indexes import read_entries
from kraft.files.partition_files import EPOCH_CHECKPOINT, LOG_FILE, PartitionFiles, SegmentFiles
from kraft.log_dir import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, partitions_in
from kraft_native.base.errors import CorruptFileError
from kraft_native.segment import checkpoints, producer_snapshots
from kraft_native.segment.audit import SegmentAudit
from kraft_native.segment.txn_index import TransactionIndex

# A log that another program appends to may be read in the middle of a write; such a tail is read again.
TAIL_READS_MAX = 3
META_PROPERTIES = "meta.properties"
MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Finding:
    """One damage. `position` and `offset` are -1 where they do not apply. With `unreadable` the records in [`offset`,
    `next_offset`) are lost (-1: up to the segment's end)."""

    file: str
    position: int
    offset: int
    what: str
    next_offset: int = -1
    unreadable: bool = False

    def __str__(self) -> str:
        place = [self.file]
        if self.position >= 0:
            place.append(f"position {self.position}")
        if self.offset >= 0:
            place.append(f"offset {self.offset}")
        lost = ""
        if self.unreadable:
            until = f"to {self.next_offset - 1}" if self.next_offset >= 0 else "to the end of the segment"
            lost = f"; offsets {self.offset} {until} cannot be read"
        return f"{' '.join(place)}: {self.what}{lost}"


@dataclass(slots=True)
class Figures:
    """Amounts that were examined."""

    segments: int = 0
    batches: int = 0
    records: int = 0
    log_bytes: int = 0
    index_entries: int = 0
    removed_segments: int = 0
    reserved_bytes: int = 0

    def add(self, audit: SegmentAudit) -> None:
        self.segments += 1
        self.batches += audit.batch_count
        self.records += audit.record_count
        self.log_bytes += audit.end_bytes
        self.reserved_bytes += audit.reserved_bytes


@dataclass(slots=True)
class Transactions:
    """Transactions according to the batches, across segments."""

    open: dict[int, int] = field(default_factory=dict)
    aborted: dict[tuple[int, int], int | None] = field(default_factory=dict)

    def follow(self, kind: str, offset: int, producer_id: int) -> None:
        if kind == "data":
            self.open.setdefault(producer_id, offset)
        elif kind == "commit":
            self.open.pop(producer_id, None)
        else:
            # None: its records lie before the first remaining batch, or it had none.
            self.aborted[producer_id, offset] = self.open.pop(producer_id, None)


def reason(error: CorruptFileError, path: Path) -> str:
    """Return the problem of the file, without its name in front."""
    return str(error).removeprefix(f"{path}: ")


def check_files(directory: Path) -> Iterator[Finding]:
    """Yield damage of the files beside the partitions of a data directory, and partitions without a segment."""
    try:
        checkpoints.read_meta_properties(directory)
    except CorruptFileError as error:
        yield Finding(META_PROPERTIES, -1, -1, reason(error, directory / META_PROPERTIES))
    for name in (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS):
        path = directory / name
        try:
            if path.exists():
                checkpoints.read_offsets(path)
        except CorruptFileError as error:
            yield Finding(name, -1, -1, reason(error, path))
    for partition in partitions_in(directory):
        inside = directory / partition.directory_name
        if not any(LOG_FILE.fullmatch(path.name) for path in inside.iterdir()):
            yield Finding(inside.name, -1, -1, "a partition's directory without a segment")


class Examination:
    """One partition under examination. `findings` may be read while `run` continues."""

    def __init__(self, partition: PartitionFiles, progress: Callable[[int], None] = lambda _: None) -> None:
        self.partition = partition
        self.progress = progress
        self.figures = Figures()
        self.transactions = Transactions()
        self.epochs: list[tuple[int, int]] | None = None
        self.epochs_seen = False
        self.log_start = partition.log_start()

    def run(self) -> Iterator[Finding]:
        """Yield all damage, segment by segment."""
        yield from self.check_epoch_file()
        for segment in self.partition.segments:
            yield from self.check_segment(segment)
        if self.epochs is None and self.epochs_seen and not (self.partition.directory / EPOCH_CHECKPOINT).exists():
            yield Finding(EPOCH_CHECKPOINT, -1, -1, "missing, although batches have leader epochs")
        for path in self.partition.snapshots():
            yield from self.check_snapshot(path)

    def check_epoch_file(self) -> Iterator[Finding]:
        try:
            self.epochs = self.partition.leader_epochs()
        except CorruptFileError as error:
            yield Finding(EPOCH_CHECKPOINT, -1, -1, reason(error, self.partition.directory / EPOCH_CHECKPOINT))

    def check_snapshot(self, path: Path) -> Iterator[Finding]:
        try:
            producer_snapshots.read_snapshot(path)
        except CorruptFileError as error:
            yield Finding(path.name, -1, -1, reason(error, path))

    def check_segment(self, segment: SegmentFiles) -> Iterator[Finding]:
        """Check the log file with everything that points into it. Indexes are read first: the log is never behind them.
        """
        findings: list[Finding] = []
        for look in range(TAIL_READS_MAX):
            findings = []
            indexes = {suffix: self.read_index(segment, suffix, findings) for suffix in (".index", ".timeindex")}
            audit = self.partition.audit(segment)
            if audit is None:
                self.figures.removed_segments += 1
                return
            with audit:
                before = Transactions(dict(self.transactions.open), {})
                self.walk(segment, audit, indexes, findings)
                if not self.tail_moved(segment, audit) or look == TAIL_READS_MAX - 1:
                    self.figures.add(audit)
                    self.figures.index_entries += sum(count for _, count in indexes.values())
                    break
                self.transactions = before
        yield from findings

    def tail_moved(self, segment: SegmentFiles, audit: SegmentAudit) -> bool:
        """Return true when the damage is the end of a file that has grown since: a write in progress."""
        return bool(segment.is_last and audit.damage and audit.damage[-1][1] == audit.end_bytes
                    and segment.path(".log").stat().st_size > audit.end_bytes)

    def read_index(self, segment: SegmentFiles, suffix: str, findings: list[Finding]) -> tuple[bytes, int]:
        """Return the used entries as bytes, and their number. Defects of the file's form become findings."""
        data = segment.read(suffix)
        name = segment.path(suffix).name
        if data is None:
            if segment.path(".log").exists():
                findings.append(Finding(name, -1, -1, MISSING))
            return b"", 0
        index = read_entries(suffix, data, preallocated=segment.is_last)
        findings += [Finding(name, -1, -1, defect) for defect in index.defects]
        # Entries of an inconsistent file prove nothing more.
        return (b"", 0) if index.defects else (index.used, len(index))

    def walk(self, segment: SegmentFiles, audit: SegmentAudit, indexes: dict[str, tuple[bytes, int]],
             findings: list[Finding]) -> None:
        """Examine the batches; add findings about them, the indexes and the epochs, in the order of the file."""
        log_name = segment.path(".log").name
        audit.expect_offset_entries(indexes[".index"][0])
        audit.expect_time_entries(indexes[".timeindex"][0])
        wrong: dict[str, list[tuple[int, int, int]]] = {"offset entry": [], "time entry": []}
        self.transactions.aborted.clear()
        shown = 0
        done = audit.position
        going = True
        while going:
            going = audit.step()
            for kind, position, offset, value in audit.take_events():
                if kind in wrong:
                    wrong[kind].append((position, offset, value))
                elif kind == "epoch":
                    self.check_epoch(log_name, position, offset, value, findings)
                else:
                    self.transactions.follow(kind, offset, value)
            for position, _, offset, next_offset, what in audit.damage[shown:]:
                findings.append(Finding(log_name, position, offset, what, next_offset, unreadable=True))
            shown = len(audit.damage)
            self.progress(audit.position - done)
            done = audit.position
        if audit.max_timestamp_ms < 0:
            # Kafka before 0.10 wrote no time indexes: format v0 has no times.
            missing = Finding(segment.path(".timeindex").name, -1, -1, MISSING)
            findings[:] = [finding for finding in findings if finding != missing]
        self.check_entries(segment, audit, wrong, findings)
        self.check_txn_index(segment, audit, findings)

    def check_epoch(self, log_name: str, position: int, offset: int, epoch: int, findings: list[Finding]) -> None:
        self.epochs_seen |= epoch >= 0
        # The checkpoint drops epochs below the log start.
        if self.epochs is None or epoch < 0 or offset < self.log_start:
            return
        in_force = max((entry for entry in self.epochs if entry[1] <= offset), default=None)
        if in_force is None or in_force[0] != epoch:
            known = "no epoch" if in_force is None else f"epoch {in_force[0]}"
            findings.append(Finding(log_name, position, offset,
                                    f"a batch of leader epoch {epoch} where {EPOCH_CHECKPOINT} has {known}"))

    def check_entries(self, segment: SegmentFiles, audit: SegmentAudit, wrong: dict[str, list[tuple[int, int, int]]],
                      findings: list[Finding]) -> None:
        """Add one finding per index file: the first wrong entry, and the number of wrong entries."""
        past_offsets, past_times = audit.remaining_entries()
        if segment.is_last and self.partition.live():
            past_offsets = past_times = 0       # the owner appended after the end of this walk was fixed
        for kind, suffix, past, text in (
            ("offset entry", ".index", past_offsets, "entry {} leads to position {}, which skips its offset"),
            ("time entry", ".timeindex", past_times, "entry {} should have the largest timestamp up to its offset, {}"),
        ):
            entries = wrong[kind]
            if entries:
                position, offset, slot = entries[0]
                more = f"; {len(entries) - 1} more entries are wrong" if len(entries) > 1 else ""
                findings.append(Finding(segment.path(suffix).name, -1, offset, text.format(slot, position) + more))
            if past and not audit.damage:
                findings.append(Finding(segment.path(suffix).name, -1, -1, f"{past} entries lead past the last batch"))

    def check_txn_index(self, segment: SegmentFiles, audit: SegmentAudit, findings: list[Finding]) -> None:
        """Check that every entry has an abort marker in this segment, and every aborted transaction an entry."""
        name = segment.path(".txnindex").name
        try:
            index = TransactionIndex(segment.path(".txnindex"), segment.base_offset)
            index.check()
            entries = list(index)
        except CorruptFileError as error:
            findings.append(Finding(name, -1, -1, reason(error, segment.path(".txnindex"))))
            return
        self.figures.index_entries += len(entries)
        if audit.damage:
            return      # a marker or its records may be unreadable
        aborted = dict(self.transactions.aborted)
        for producer_id, first_offset, last_offset, _ in entries:
            if last_offset >= audit.next_offset and self.partition.live():
                continue
            known = aborted.pop((producer_id, last_offset), -1)
            if known == -1:
                findings.append(Finding(name, -1, last_offset,
                                        f"no marker there aborts a transaction of producer {producer_id}"))
            elif known is not None and known < first_offset:
                # The opposite is sound: records are compacted, or lie in deleted segments.
                findings.append(Finding(name, -1, last_offset, f"the transaction of producer {producer_id} begins at "
                                                               f"offset {known}, not {first_offset}"))
        for (producer_id, offset), first in aborted.items():
            if first is not None:
                findings.append(Finding(name, -1, offset, f"the aborted transaction of producer {producer_id} from "
                                                          f"offset {first} on is missing"))
