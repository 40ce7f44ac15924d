"""The core's log port on the simulated disk.

Its durability is that of the engine:

- An append is visible at once. It is durable when a flush that began after it has ended.
- A truncation is durable when it returns, so that removed records never coexist with their replacements.

Recovery reads whole batches that follow each other, and cuts the file at the first torn one. Damage below the recovery
checkpoint is not a torn tail: the log does not open (`DamagedLogError`).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from random import Random

from kraft.raft.ports import AppendedControl
from kraft.raft.records import ControlRecord
from kraft.raft.types import OffsetAndEpoch
from kraft.testing.sim.batches import Batch, Content, Contents, Payloads, Records, Value, control_contents, next_chain
from kraft.testing.sim.disk import Disk, DiskError, StoredSnapshot
from kraft_native.base.errors import CorruptRecordError, OperationError

Watcher = Callable[[Batch], None]

CHECKPOINT_OFFSETS = 32
"""Largest distance of the recovery checkpoint behind the durable end."""


class DamagedLogError(OperationError):
    """Durable bytes have changed."""


class SimLog:
    """Simulated log. `durable_offset`: everything below it survives any crash. `watch` receives every batch that enters
    the log. `appended` is called after each append of fetched records, to start their flush. `failure`: that of a
    flush; all later writes fail.

    Invariant: `ends` are the end offsets of `batches`; `epochs` has (epoch, first offset) of each epoch in the log.
    """

    def __init__(self, disk: Disk, contents: Contents, watch: Watcher) -> None:
        self._disk = disk
        self._contents = contents
        self._watch = watch
        self.appended: Callable[[], None] = lambda: None
        self.failure: DiskError | None = None
        self.batches: list[Batch] = []
        self._ends: list[int] = []
        self._positions: list[int] = []
        self._epochs: list[tuple[int, int]] = []
        self._base: StoredSnapshot | None = None
        self._flushes: list[int] = []
        self._end_position = 0
        self.end = OffsetAndEpoch(0, 0)
        self._open()
        self.durable_offset = self.end.offset

    # --- opening -----------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        latest = max(self._disk.snapshots.values(), key=lambda each: each.id.offset, default=None)
        position, tail_is_torn = self._read_batches()
        if tail_is_torn and position < self._disk.recovery_position:
            raise DamagedLogError(f"damaged at byte {position}, below {self._disk.recovery_position}")
        if latest is not None and not self._continues(latest):
            self._begin_after(latest)
        else:
            self._end_position = position
            self._disk.cut(position)
        self._disk.flush(self._disk.written())

    def _read_batches(self) -> tuple[int, bool]:
        """Read the batches from the file. Return where they end, and whether other bytes follow there."""
        disk, position, chain = self._disk, 0, 0
        self._base = next((each for each in disk.snapshots.values() if each.id.offset == disk.log_start), None)
        if self._base is not None:
            chain = self._base.chain
        self._find_end()
        while batch := self._contents.decode(disk.durable, position, chain):
            if batch.base_offset >= disk.log_start:
                if batch.base_offset != self.end.offset or batch.epoch < self.end.epoch:
                    break
                self._add(batch, position)
                chain = batch.chain
            position += len(batch.data)
        return position, position < len(disk.durable)

    def _continues(self, snapshot: StoredSnapshot) -> bool:
        """Return whether this log has the snapshot's last record. A log that was being replaced when power was lost
        does not."""
        offset, epoch = snapshot.id
        if not self.start_offset <= offset <= self.end.offset:
            return False
        return offset == self.start_offset or self._epoch_before(offset) == epoch

    def _begin_after(self, snapshot: StoredSnapshot) -> None:
        self.batches.clear()
        self._ends.clear()
        self._positions.clear()
        self._epochs.clear()
        self._base = snapshot
        self._end_position = 0
        self._find_end()
        self._disk.log_start = snapshot.id.offset
        self._disk.recovery_offset = self._disk.recovery_position = 0
        self._disk.cut(0)

    # --- LogPort -----------------------------------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        return self._disk.log_start

    def _find_end(self) -> None:
        last = self.batches[-1] if self.batches else None
        self.end = self._base_id if last is None else OffsetAndEpoch(last.end_offset, last.epoch)

    @property
    def _base_id(self) -> OffsetAndEpoch:
        return OffsetAndEpoch(0, 0) if self._base is None else self._base.id

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        index = bisect_right(self._epochs, epoch, key=lambda entry: entry[0])
        if index == 0:
            return self._base_id
        found = self._epochs[index - 1][0]
        end_offset = self._epochs[index][1] if index < len(self._epochs) else self.end.offset
        return OffsetAndEpoch(end_offset, found)

    def append(self, records: object, epoch: int, now_ms: int) -> int:  # noqa: ARG002 - batches have no time
        assert isinstance(records, (Value, Payloads)), f"nothing that is proposed: {records!r}"
        return self._append_new(records, epoch)

    def append_control(self, records: Sequence[ControlRecord], epoch: int, now_ms: int) -> int:  # noqa: ARG002
        return self._append_new(tuple(records), epoch)

    def _append_new(self, content: Content, epoch: int) -> int:
        batch = self._contents.encode(self.end.offset, epoch, content, self.chain)
        self._write(batch)
        return batch.end_offset

    def append_fetched(self, records: object, epoch: int) -> tuple[AppendedControl, ...]:
        assert isinstance(records, Records), f"not records: {records!r}"
        if records.is_damaged:
            raise CorruptRecordError("a fetched batch has a wrong checksum")
        first = records.batches[0]
        if first.base_offset != self.end.offset:
            raise CorruptRecordError(f"a fetched batch begins at {first.base_offset}, the log ends at {self.end}")
        if (last := records.batches[-1]).epoch > epoch:
            raise CorruptRecordError(f"a fetched batch is of epoch {last.epoch}, its sender leads in {epoch}")
        self._write_fetched(records)
        return control_contents(records.batches)

    def append_leased(self, records: object) -> int:
        """Append plain records that the core does not see, as `RaftLog.append_leased` does. Return the new end, or -1
        when they are not plain."""
        assert isinstance(records, Records), f"not records: {records!r}"
        end_offset, epoch = self.end
        for batch in records.batches:
            if (batch.base_offset, batch.epoch) != (end_offset, epoch) or batch.controls or records.is_damaged:
                return -1
            end_offset = batch.end_offset
        self._write_fetched(records)
        return end_offset

    def _write_fetched(self, records: Records) -> None:
        for batch in records.batches:
            self._write(batch._replace(chain=next_chain(self.chain, batch.data)))
        self.appended()

    def _write(self, batch: Batch) -> None:
        if self.failure is not None:
            raise self.failure
        self._disk.write(self._end_position, batch.data)
        self._add(batch, self._end_position)
        self._end_position += len(batch.data)
        self._watch(batch)

    def _add(self, batch: Batch, position: int) -> None:
        if batch.epoch != self.end.epoch or not self._epochs:
            self._epochs.append((batch.epoch, batch.base_offset))
        self.batches.append(batch)
        self.end = OffsetAndEpoch(batch.end_offset, batch.epoch)
        self._ends.append(batch.end_offset)
        self._positions.append(position)

    def truncate(self, end_offset: int) -> None:
        keep = bisect_right(self._ends, end_offset)
        if keep == len(self.batches):
            return
        position = self._positions[keep]
        del self.batches[keep:], self._ends[keep:], self._positions[keep:]
        self._find_end()
        while self._epochs and self._epochs[-1][1] >= self.end.offset:
            self._epochs.pop()
        self._disk.recovery_offset = min(self._disk.recovery_offset, self.end.offset)
        self._disk.recovery_position = min(self._disk.recovery_position, position)
        self._disk.cut(position)
        self._disk.flush(self._disk.written())
        self._end_position = position
        self.durable_offset = min(self.durable_offset, self.end.offset)
        self._flushes = [min(offset, self.end.offset) for offset in self._flushes]

    def read(self, start_offset: int, max_bytes: int) -> object:
        first = bisect_right(self._ends, start_offset)
        if first == len(self.batches):
            return None
        limit = self._positions[first] + max_bytes
        last = max(first + 1, bisect_right(self._positions, limit, first) - 1)
        if self._end_position <= limit:
            last = len(self.batches)
        return Records(tuple(self.batches[first:last]))

    def controls(self) -> tuple[AppendedControl, ...]:
        return control_contents(self.batches)

    # --- for the driver and the checks -------------------------------------------------------------------------------

    @property
    def chain(self) -> int:
        """Chain of the whole log."""
        if self.batches:
            return self.batches[-1].chain
        return 0 if self._base is None else self._base.chain

    def _epoch_before(self, offset: int) -> int:
        index = bisect_left(self._ends, offset)
        return self.batches[index].epoch if index < len(self.batches) else -1

    def id_at(self, end_offset: int) -> tuple[OffsetAndEpoch, int] | None:
        """Return the id of the batch end at `end_offset` and the chain up to it, or None when no batch ends there."""
        if end_offset == self._base_id.offset:
            return self._base_id, 0 if self._base is None else self._base.chain
        index = bisect_left(self._ends, end_offset)
        if index == len(self._ends) or self._ends[index] != end_offset:
            return None
        return OffsetAndEpoch(end_offset, self.batches[index].epoch), self.batches[index].chain

    def between(self, start_offset: int, end_offset: int) -> list[Batch]:
        """Return the batches that end after `start_offset` and at or before `end_offset`."""
        return self.batches[bisect_right(self._ends, start_offset):bisect_right(self._ends, end_offset)]

    def flush_begins(self) -> int:
        """Start a flush of what is written now, and return its mark. `flush_ends` is called with the marks, in the same
        order."""
        self._flushes.append(self.end.offset)
        return self._disk.written()

    def flush_ends(self, mark: int) -> None:
        """End the oldest flush that began."""
        self._disk.flush(mark)
        self.durable_offset = max(self.durable_offset, self._flushes.pop(0))
        if self.durable_offset >= self._disk.recovery_offset + CHECKPOINT_OFFSETS:
            self._disk.recovery_offset = self.durable_offset
            after = bisect_right(self._ends, self.durable_offset)
            self._disk.recovery_position = (
                self._positions[after] if after < len(self.batches) else self._end_position)

    def flip_bit(self, random: Random) -> bool:
        """Flip one bit of a batch below the recovery checkpoint, as a disk does in years. Return False when no such
        batch exists."""
        old = [index for index, end in enumerate(self._ends) if end <= self._disk.recovery_offset]
        if not old:
            return False
        index = old[random.randrange(len(old))]
        at = self._positions[index] + random.randrange(len(self.batches[index].data))
        self._disk.durable[at] ^= 1 << random.randrange(8)
        return True

    def replace(self, snapshot: StoredSnapshot) -> None:
        """Empty the log; it continues after a durable snapshot."""
        self._begin_after(snapshot)
        self._flushes = [0 for _ in self._flushes]
        self.durable_offset = snapshot.id.offset

    def trim(self, snapshot: StoredSnapshot) -> None:
        """Let the log start at the end of a snapshot. Bytes before it stay in the file until it is replaced."""
        keep = bisect_right(self._ends, snapshot.id.offset)
        del self.batches[:keep], self._ends[:keep], self._positions[:keep]
        self._base = snapshot
        self._find_end()
        self._disk.log_start = snapshot.id.offset
        while len(self._epochs) > 1 and self._epochs[1][1] <= snapshot.id.offset:
            del self._epochs[0]
        if self._epochs:
            self._epochs[0] = (self._epochs[0][0], max(self._epochs[0][1], snapshot.id.offset))
            if not self.batches:
                self._epochs.clear()
