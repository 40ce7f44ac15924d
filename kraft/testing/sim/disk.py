"""A disk: one file of log bytes, the quorum-state file, snapshots, and a checkpoint of how far the log was once
flushed.

Bytes that were written and not flushed are visible to the process and survive its death. They are at risk when the
machine loses power. Then any subset of the pending operations survives, each write in independent pieces of 512 bytes.
A file that was shortened may have its old length again.

A failed flush is final. Its data may be lost although the process that saw the failure still reads it. So a node whose
flush failed comes back only as after a loss of power, when what it reads is on the disk.
"""

from dataclasses import dataclass, field
from errno import EIO
from random import Random
from typing import Final, NamedTuple

from kraft.raft.ready import HardState
from kraft.raft.types import OffsetAndEpoch
from kraft_native.base.errors import CorruptFileError, StorageError, UnsupportedVersionError

PIECE_BYTES: Final = 512


class DiskError(StorageError):
    """A failed call of the file system."""


class Write(NamedTuple):
    position: int
    data: bytes


class Cut(NamedTuple):
    """Truncation of the file at `position`."""

    position: int


@dataclass(slots=True)
class QuorumStateFile:
    """The quorum-state file. An update writes a temporary file, flushes it, renames it and flushes the directory. So a
    reader finds the old or the new state.

    `durable` survives everything. `pending`: the file is renamed and its directory is not flushed yet. `is_damaged`:
    bits of the durable file have flipped, and it cannot be read. `is_newer`: a later release wrote it.
    """

    durable: HardState | None = None
    pending: HardState | None = None
    is_damaged: bool = False
    is_newer: bool = False

    def start(self, state: HardState) -> None:
        self.pending = state

    def finish(self) -> None:
        self.durable, self.pending = self.pending, None

    def lose_power(self, random: Random) -> None:
        if self.pending is not None and random.random() < 0.5:
            self.durable = self.pending
        self.pending = None

    def read(self) -> HardState:
        """Return the state that a new process finds; on a new disk, the initial state."""
        if self.is_newer:
            raise UnsupportedVersionError("quorum-state has version 2, known are 0 and 1")
        if self.is_damaged:
            raise CorruptFileError("quorum-state cannot be read")
        state = self.pending or self.durable
        return HardState() if state is None else state


class StoredSnapshot(NamedTuple):
    """A snapshot on disk. `chain`: that of the log prefix that it replaces. `data` has all of it; a receiver decodes it
    from there."""

    id: OffsetAndEpoch
    chain: int
    data: bytes


@dataclass(slots=True)
class Disk:
    """Disk of one node. A checkpoint says that the log was once durable at least up to `recovery_offset`, at byte
    `recovery_position`. Damage below it is not the effect of a crash, also in records that the log no longer has.
    `log_start`: first offset of the log.

    `fail_write` (an error number), `fail_flush` and `fail_quorum_state` make the next such call fail.
    """

    durable: bytearray = field(default_factory=bytearray)
    quorum_state: QuorumStateFile = field(default_factory=QuorumStateFile)
    snapshots: dict[OffsetAndEpoch, StoredSnapshot] = field(default_factory=dict)
    recovery_offset: int = 0
    recovery_position: int = 0
    log_start: int = 0
    fail_write: int = 0
    fail_flush: bool = False
    fail_quorum_state: bool = False
    _pending: list[Write | Cut] = field(default_factory=list)
    _applied: int = 0

    @property
    def is_dirty(self) -> bool:
        return bool(self._pending)

    def write(self, position: int, data: bytes) -> None:
        self.check_write()
        self._pending.append(Write(position, data))

    def cut(self, position: int) -> None:
        self._pending.append(Cut(position))

    def repair(self) -> None:
        """Clear all injected failures."""
        self.fail_write, self.fail_flush, self.fail_quorum_state = 0, False, False

    def check_write(self) -> None:
        """Raise the injected failure of the next write, if there is one."""
        if self.fail_write:
            raise DiskError("log", self.fail_write, "write")

    def written(self) -> int:
        """Return a mark for `flush`: everything written up to now."""
        return self._applied + len(self._pending)

    def flush(self, mark: int) -> None:
        """Make everything up to the mark durable."""
        if self.fail_flush:
            raise DiskError("log", EIO, "flush")
        count = mark - self._applied
        if count > 0:
            for operation in self._pending[:count]:
                self._apply(operation)
            del self._pending[:count]
            self._applied = mark

    def lose_power(self, random: Random) -> int:
        """Lose part of what is not durable. Return the number of lost pieces."""
        lost = 0
        # Some failures lose everything, some nothing, most lose pieces.
        survival = random.choice((0.0, 0.2, 0.5, 0.8, 1.0))
        for operation in self._pending:
            if isinstance(operation, Cut):
                if random.random() < survival:
                    self._apply(operation)
                continue
            for start in range(0, len(operation.data), PIECE_BYTES):
                piece = Write(operation.position + start, operation.data[start:start + PIECE_BYTES])
                if random.random() < survival:
                    self._apply(piece)
                else:
                    lost += 1
        self._applied += len(self._pending)
        self._pending.clear()
        self.quorum_state.lose_power(random)
        return lost

    def lose_process(self) -> None:
        """Handle the death of the process while the system survives. The next process reads what was written, and makes
        it durable first."""
        self.flush(self.written())
        if self.quorum_state.pending is not None:
            self.quorum_state.finish()

    def _apply(self, operation: Write | Cut) -> None:
        if isinstance(operation, Cut):
            del self.durable[operation.position:]
            return
        position, data = operation
        missing = position - len(self.durable)
        if missing > 0:
            self.durable.extend(bytes(missing))
        self.durable[position:position + len(data)] = data
