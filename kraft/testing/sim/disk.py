"""A disk: one file of log bytes, the quorum-state file, snapshots, and a checkpoint of how far the log was once
flushed.

Bytes that were written and not flushed are known to the process, survive its death, and are at risk when the machine
loses power: then any subset of the pending operations survives, writes in pieces of 512 bytes, each by itself, and a
file that was made shorter may come back long.

A failed flush is final. What it should have made durable may be lost although the process that failed reads it still;
so a node whose flush failed comes back only as after a loss of power, when what it reads is what the disk has.
"""

from dataclasses import dataclass, field
from errno import EIO
from random import Random
from typing import Final, NamedTuple

from kraft.raft.ready import HardState
from kraft.raft.types import OffsetAndEpoch
from kraft_native.errors import CorruptFileError, StorageError, UnsupportedVersionError

PIECE_BYTES: Final = 512


class DiskError(StorageError):
    """A call of the file system failed."""


class Write(NamedTuple):
    position: int
    data: bytes


class Cut(NamedTuple):
    """The file ends here now."""

    position: int


@dataclass(slots=True)
class QuorumStateFile:
    """Written to a temporary file, flushed, renamed, and the directory flushed: a reader finds the old or the new
    state.

    `durable` survives everything. `pending`: the rename was made and its directory not yet flushed. `is_damaged`: bits
    of what was durable have flipped, and it cannot be read. `is_newer`: a later release wrote it.
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
        """What a process that starts finds; the state of a new disk when there is none."""
        if self.is_newer:
            raise UnsupportedVersionError("quorum-state has version 2, known are 0 and 1")
        if self.is_damaged:
            raise CorruptFileError("quorum-state cannot be read")
        state = self.pending or self.durable
        return HardState() if state is None else state


class StoredSnapshot(NamedTuple):
    """`chain`: of the log that it stands for. `data` has it all; a receiver decodes it from there."""

    id: OffsetAndEpoch
    chain: int
    data: bytes


@dataclass(slots=True)
class Disk:
    """`recovery_offset`, at the byte `recovery_position`: the log was once durable at least up to here, as a checkpoint
    says; damage below it is not the mark of a death, also in records that the log no longer has. `log_start`: first
    offset that it still has.

    `fail_write` (an error number), `fail_flush` and `fail_quorum_state` make the next such call fail."""

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

    def mend(self) -> None:
        """Nothing fails any more."""
        self.fail_write, self.fail_flush, self.fail_quorum_state = 0, False, False

    def check_write(self) -> None:
        """Fails when the next write is to fail."""
        if self.fail_write:
            raise DiskError("log", self.fail_write, "write")

    def written(self) -> int:
        """A mark for `flush`: everything up to now."""
        return self._applied + len(self._pending)

    def flush(self, mark: int) -> None:
        """Everything up to the mark is durable."""
        if self.fail_flush:
            raise DiskError("log", EIO, "flush")
        count = mark - self._applied
        if count > 0:
            for operation in self._pending[:count]:
                self._apply(operation)
            del self._pending[:count]
            self._applied = mark

    def lose_power(self, random: Random) -> int:
        """What is not durable is lost in part; gives the number of pieces lost."""
        lost = 0
        # Some deaths take all, some nothing, most take pieces.
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
        """The process died and the system lives: what was written is read by the next, who makes it durable first."""
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
