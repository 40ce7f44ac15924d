"""A metadata log and its snapshots in memory, which distinguish written from durable records.

The plain, obvious implementation of `LogPort` and `SnapshotPort`: one list of records. `start_flush` and `finish_flush`
advance the durable end; `crash` drops the records behind it.
"""

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kraft.protocol.messages.voters_record import VotersRecord
from kraft.raft.ports import AppendedControl, SnapshotPart
from kraft.raft.records import ControlRecord, KRaftVersion, LeaderChange, Voters, voter_set, voters_record
from kraft.raft.types import START, UNKNOWN_OFFSET, OffsetAndEpoch
from kraft.raft.voters import Assignment, VoterSet
from kraft_native.base.errors import CorruptRecordError

RECORD_BYTES: Final = 100
"""Size of one record where bytes are limited."""


class Record(NamedTuple):
    """One record: a control record of the quorum, or a value that the state machine proposed."""

    epoch: int
    value: object


class Batch(NamedTuple):
    """Consecutive records, as one log sends them to another."""

    base_offset: int
    records: tuple[Record, ...]

    def __str__(self) -> str:
        end = self.base_offset + len(self.records)
        return f"[{self.base_offset},{end})"


@dataclass(frozen=True, slots=True)
class Content:
    """Contents of a log on disk."""

    start: OffsetAndEpoch
    records: tuple[Record, ...]

    def without_front(self, start: OffsetAndEpoch) -> "Content":
        return Content(start, self.records[max(0, start.offset - self.start.offset):])


class MemoryLog:
    """`LogPort` in memory. Proposed records are any sequence of values."""

    def __init__(self, start: OffsetAndEpoch = START) -> None:
        self._flushing: dict[int, int | Content] = {}
        """Records that each flush writes, by the offset that it was started for: up to an offset, or, when the log was
        truncated since, the log before the truncation."""
        self._overwritten: Content | None = None
        """Durable contents while they are not a prefix of the log: it was truncated, and the truncation is not
        durable."""
        self._durable_end = start.offset
        self._load(Content(start, ()))

    def _load(self, content: Content) -> None:
        self._start = content.start
        self._records: list[Record] = []
        self._epochs: list[int] = []
        self._epoch_starts: list[int] = []
        for record in content.records:
            self._add(record)

    def _add(self, record: Record) -> None:
        last = self._epochs[-1] if self._epochs else self._start.epoch
        assert record.epoch >= last, f"epoch {record.epoch} after {last}"
        if not self._epochs or record.epoch > last:
            self._epochs.append(record.epoch)
            self._epoch_starts.append(self._start.offset + len(self._records))
        self._records.append(record)

    # --- LogPort

    @property
    def start_offset(self) -> int:
        return self._start.offset

    @property
    def end(self) -> OffsetAndEpoch:
        epoch = self._epochs[-1] if self._epochs else self._start.epoch
        return OffsetAndEpoch(self._start.offset + len(self._records), epoch)

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        found = bisect_right(self._epochs, epoch)
        if found == 0:
            return self._start
        ends = self._epoch_starts[found:found + 1]
        return OffsetAndEpoch(ends[0] if ends else self.end.offset, self._epochs[found - 1])

    def append(self, records: object, epoch: int, now_ms: int) -> int:  # noqa: ARG002 - these records have no time
        assert isinstance(records, Sequence)
        for value in records:
            self._add(Record(epoch, value))
        return self.end.offset

    def append_control(self, records: Sequence[ControlRecord], epoch: int, now_ms: int) -> int:
        return self.append(records, epoch, now_ms)

    def append_fetched(self, records: object, epoch: int) -> tuple[AppendedControl, ...]:
        assert isinstance(records, Batch)
        if records.base_offset != self.end.offset:
            raise CorruptRecordError(f"records at {records.base_offset} do not continue a log that ends at {self.end}")
        if records.records[-1].epoch > epoch:
            raise CorruptRecordError(f"a record of epoch {records.records[-1].epoch} from the leader of epoch {epoch}")
        for record in records.records:
            self._add(record)
        return _controls(records.base_offset, records.records)

    def truncate(self, end_offset: int) -> None:
        assert self._start.offset <= end_offset <= self.end.offset
        if self._durable_end > end_offset and self._overwritten is None:
            self._overwritten = self.durable
        self._flushing = {flush: self._until(end) if isinstance(end, int) else end
                          for flush, end in self._flushing.items()}
        self._load(self._until(end_offset))

    def read(self, start_offset: int, max_bytes: int) -> Batch | None:
        first = start_offset - self._start.offset
        count = max(1, max_bytes // RECORD_BYTES)
        records = tuple(self._records[first:first + count])
        return Batch(start_offset, records) if records else None

    def controls(self) -> tuple[AppendedControl, ...]:
        return _controls(self._start.offset, self._records)

    # --- the disk

    @property
    def records(self) -> tuple[Record, ...]:
        return tuple(self._records)

    def record_at(self, offset: int) -> Record:
        return self._records[offset - self._start.offset]

    def _until(self, end_offset: int) -> Content:
        return Content(self._start, tuple(self._records[:max(0, end_offset - self._start.offset)]))

    @property
    def durable(self) -> Content:
        """Contents that survive a crash, at least."""
        return self._overwritten or self._until(self._durable_end)

    @property
    def durable_end_offset(self) -> int:
        if self._overwritten is not None:
            return self._overwritten.start.offset + len(self._overwritten.records)
        return self._durable_end

    def has_durably(self, end_offset: int, last: Record) -> bool:
        """Return whether the durable log reaches `end_offset` with `last` as the record before it, or begins behind
        it."""
        if end_offset <= self._start.offset:
            return True
        if end_offset > self.durable_end_offset:
            return False
        if self._overwritten is not None:
            return self._overwritten.records[end_offset - 1 - self._overwritten.start.offset] == last
        return self.record_at(end_offset - 1) == last

    def start_flush(self, flush: int) -> None:
        """Start a flush of what is written now."""
        self._flushing[flush] = self.end.offset

    def finish_flush(self, flush: int) -> None:
        """Finish a flush. Flushes finish in the order in which they were started."""
        written = self._flushing.pop(flush, None)
        if isinstance(written, Content):
            self._overwritten = written
        elif written is not None:
            self._overwritten, self._durable_end = None, written

    def crash(self, kept: int = 0) -> None:
        """Return to the durable contents and `kept` of the records behind them, if they continue these."""
        self._flushing.clear()
        content = self._overwritten or self._until(self._durable_end + kept)
        self._overwritten = None
        self._durable_end = content.start.offset + len(content.records)
        self._load(content)

    def restart_at(self, start: OffsetAndEpoch) -> None:
        """Empty the log for a snapshot; durable at once, as `SnapshotPort.install` guarantees."""
        self._flushing.clear()
        self._overwritten = None
        self._durable_end = start.offset
        self._load(Content(start, ()))

    def cut_front(self, start: OffsetAndEpoch) -> None:
        """Let the log start at `start`; durable at once."""
        assert self._start.offset <= start.offset <= self.end.offset
        if self._overwritten is not None:
            self._overwritten = self._overwritten.without_front(start)
        self._flushing = {flush: written if isinstance(written, int) else written.without_front(start)
                          for flush, written in self._flushing.items()}
        self._durable_end = max(self._durable_end, start.offset)
        self._load(self._until(self.end.offset).without_front(start))


def _controls(base_offset: int, records: Sequence[Record]) -> tuple[AppendedControl, ...]:
    return tuple(AppendedControl(offset, record.value) for offset, record in enumerate(records, base_offset)
                 if isinstance(record.value, LeaderChange | KRaftVersion | Voters))


class MemorySnapshots:
    """`SnapshotPort` in memory. A snapshot is a JSON text: the voters, and the bytes of the state machine."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self._whole: dict[OffsetAndEpoch, bytes] = {}
        self._receiving: tuple[OffsetAndEpoch, bytearray] | None = None

    def write(self, snapshot: OffsetAndEpoch, assignment: Assignment, state: bytes = b"") -> None:
        """Write a snapshot of this node's own."""
        self._whole[snapshot] = json.dumps({
            "kraft.version": assignment.kraft_version,
            "voters": voters_record(assignment.voters).encode(0).hex(),
            "state": state.hex(),
        }).encode()

    def state(self, snapshot: OffsetAndEpoch) -> bytes:
        """Return the bytes that the state machine wrote."""
        return bytes.fromhex(json.loads(self._whole[snapshot])["state"])

    def ids(self) -> tuple[OffsetAndEpoch, ...]:
        return tuple(sorted(self._whole))

    # --- SnapshotPort

    def latest(self) -> OffsetAndEpoch | None:
        return max(self._whole, default=None)

    def read(self, snapshot: OffsetAndEpoch, position: int, max_bytes: int) -> SnapshotPart | None:
        content = self._whole.get(snapshot)
        if content is None:
            return None
        return SnapshotPart(len(content), content[max(position, 0):position + max_bytes])

    def begin(self, snapshot: OffsetAndEpoch) -> None:
        self._receiving = snapshot, bytearray()

    def append(self, data: bytes) -> None:
        assert self._receiving is not None
        self._receiving[1].extend(data)

    def abandon(self) -> None:
        self._receiving = None

    def install(self) -> bool:
        assert self._receiving is not None
        snapshot, content = self._receiving
        self._receiving = None
        try:
            self._whole[snapshot] = bytes(content)
            self.controls(snapshot)
        except (ValueError, KeyError) as error:
            del self._whole[snapshot]
            raise CorruptRecordError(f"snapshot {snapshot}: {error!r}") from error
        self._log.restart_at(snapshot)
        return True

    def controls(self, snapshot: OffsetAndEpoch) -> tuple[ControlRecord, ...]:
        content = json.loads(self._whole[snapshot])
        voters = voter_set(VotersRecord.decode(bytes.fromhex(content["voters"]), 0))
        version = KRaftVersion(content["kraft.version"])
        return (version, Voters(voters)) if voters.voters else (version,)

    def trim_log(self, snapshot: OffsetAndEpoch) -> None:
        assert snapshot in self._whole, f"{snapshot} is not durable"
        self._log.cut_front(snapshot)
        for older in [each for each in self._whole if each < snapshot]:
            del self._whole[older]

    def crash(self) -> None:
        """Lose the partly received snapshot. Listed snapshots are durable."""
        self._receiving = None


def formatted(voters: VoterSet) -> tuple[MemoryLog, MemorySnapshots]:
    """Return an empty log of a dynamic quorum, as `format` leaves it: with an empty snapshot that names the first
    voters."""
    log = MemoryLog()
    snapshots = MemorySnapshots(log)
    if voters.voters:
        snapshots.write(START, Assignment(UNKNOWN_OFFSET, 1, voters))
    return log, snapshots
