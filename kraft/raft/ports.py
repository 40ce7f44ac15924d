"""Ports of the core: a log, snapshots, randomness, and a trace.

All calls return at once. Only durability takes time, and it is reported as an event: `Raft.log_flushed`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from kraft.raft.events import Event
from kraft.raft.records import ControlRecord
from kraft.raft.types import OffsetAndEpoch


class Random(Protocol):
    """`random.Random` in production, a seeded one in tests."""

    def randrange(self, stop: int, /) -> int: ...


class SnapshotPart(NamedTuple):
    """Part of a snapshot whose whole size is `size` bytes."""

    size: int
    data: bytes


class AppendedControl(NamedTuple):
    offset: int
    record: ControlRecord


class LogPort(Protocol):
    """Metadata log as the core sees it: offsets, epochs and control records; other records are never inspected.

    All later calls see the effect of `append_*` and `truncate`, which is durable only when the driver says so. An error
    of the disk is raised, is final, and ends the node; the core never calls again after one.
    """

    @property
    def start_offset(self) -> int:
        """First offset that the log still has. Either 0 or the end of a snapshot that is durable."""

    @property
    def end(self) -> OffsetAndEpoch:
        """Log end offset, and the epoch of the last record or of the snapshot that the log starts after; (0, 0) for an
        empty log."""

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Return the largest epoch of the log that is not above `epoch`, and the offset at which it ends. If there is
        none, return the log start and the epoch of the snapshot there, or (0, 0) without a snapshot."""

    def append(self, records: object, epoch: int, now_ms: int) -> int:
        """Append proposed records as the leader of `epoch`; return the new end offset."""

    def append_control(self, records: Sequence[ControlRecord], epoch: int, now_ms: int) -> int:
        """Append one control batch as the leader of `epoch`; return the new end offset."""

    def append_fetched(self, records: object, epoch: int) -> tuple[AppendedControl, ...]:
        """Append what the leader of `epoch` sent; return the control records among it.

        The bytes must be whole batches that start at the log end, none of a later epoch (KAFKA-18723). Otherwise raise
        a `ProtocolError` and change nothing.
        """

    def truncate(self, end_offset: int) -> None:
        """Remove everything from `end_offset` on."""

    def read(self, start_offset: int, max_bytes: int) -> object:
        """Return records from `start_offset` on to send to a replica: at least one batch; None at the log end."""

    def controls(self) -> tuple[AppendedControl, ...]:
        """Return all control records of the log, for the start."""


class SnapshotPort(Protocol):
    """Snapshots beside the log. A snapshot is listed only when it is whole and durable."""

    def latest(self) -> OffsetAndEpoch | None: ...

    def read(self, snapshot: OffsetAndEpoch, position: int, max_bytes: int) -> SnapshotPart | None:
        """Return bytes of a snapshot; None when it does not exist."""

    def begin(self, snapshot: OffsetAndEpoch) -> None:
        """Start to receive a snapshot; discard one that was begun before and not finished."""

    def append(self, data: bytes) -> None:
        """Append the next bytes of the snapshot that is being received."""

    def abandon(self) -> None:
        """Discard the snapshot that is being received."""

    def install(self) -> bool:
        """Finish the received snapshot: check it, make it durable, then empty the log, which starts at the snapshot's
        end. If the bytes are not a snapshot, raise a `ProtocolError` and discard them.

        Return False, with nothing changed, while they are being checked. The core calls again at its next event."""

    def controls(self, snapshot: OffsetAndEpoch) -> tuple[ControlRecord, ...]:
        """Return the control records of a snapshot."""

    def trim_log(self, snapshot: OffsetAndEpoch) -> None:
        """Move the log start to the end of this snapshot."""


Trace = Callable[[int, Event], None]
"""It receives the time in milliseconds with each event."""
