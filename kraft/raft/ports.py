"""What the core needs from outside: a log, randomness, and somebody who listens.

All calls return at once. Only durability takes time, and it is told as an event: `Raft.log_flushed`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from kraft.raft.records import ControlRecord
from kraft.raft.types import OffsetAndEpoch


class Random(Protocol):
    """`random.Random` of the program, a seeded one in tests."""

    def randrange(self, stop: int, /) -> int: ...


class SnapshotPart(NamedTuple):
    """Some bytes of a snapshot that is `size` bytes large."""

    size: int
    data: bytes


class AppendedControl(NamedTuple):
    offset: int
    record: ControlRecord


class LogPort(Protocol):
    """The metadata log as the core sees it: offsets, epochs and control records; other records are never looked at.

    What `append_*` and `truncate` did is seen by all later calls, and is durable only when the driver says so. An error
    of the disk is raised, is final, and ends the node; the core never calls again after one.
    """

    @property
    def start_offset(self) -> int:
        """The first offset that the log still has. Either 0 or the end of a snapshot that is durable."""

    @property
    def end(self) -> OffsetAndEpoch:
        """The log end offset and the epoch of the last record, or of the snapshot the log starts after; (0, 0) for a
        log that has nothing."""

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch of the log that is not above `epoch`, and the offset at which it ends. With none, (log
        start, epoch of the snapshot there); (0, 0) without."""

    def append(self, records: object, epoch: int, now_ms: int) -> int:
        """Appends proposed records as the leader of `epoch`; gives the new end offset."""

    def append_control(self, records: Sequence[ControlRecord], epoch: int, now_ms: int) -> int:
        """Appends one control batch as the leader of `epoch`; gives the new end offset."""

    def append_fetched(self, records: object, epoch: int) -> tuple[AppendedControl, ...]:
        """Appends what the leader of `epoch` sent; gives the control records that were among it. Whole batches only,
        starting at the log end, none of a later epoch (KAFKA-18723). Raises a `ProtocolError` and changes nothing when
        the bytes are not that."""

    def truncate(self, end_offset: int) -> None:
        """Forgets everything at and behind `end_offset`."""

    def read(self, start_offset: int, max_bytes: int) -> object:
        """Records from `start_offset` on to send to a replica: at least one batch; None at the log end."""

    def controls(self) -> tuple[AppendedControl, ...]:
        """All control records that stand in the log, for the start."""


class SnapshotPort(Protocol):
    """The snapshots beside the log. A snapshot is listed only when it is whole and durable."""

    def latest(self) -> OffsetAndEpoch | None: ...

    def read(self, snapshot: OffsetAndEpoch, position: int, max_bytes: int) -> SnapshotPart | None:
        """Bytes of a snapshot; None when there is no such snapshot."""

    def begin(self, snapshot: OffsetAndEpoch) -> None:
        """Starts to receive a snapshot; one that was begun before and not finished is forgotten."""

    def append(self, data: bytes) -> None:
        """The next bytes of the snapshot that is received."""

    def abandon(self) -> None:
        """The snapshot that is received is not finished."""

    def install(self) -> None:
        """The snapshot that is received is whole: it becomes durable, and then the log is emptied and starts at its
        end. Raises a `ProtocolError` and forgets it when the bytes are not a snapshot."""

    def controls(self, snapshot: OffsetAndEpoch) -> tuple[ControlRecord, ...]:
        """The control records of a snapshot."""

    def trim_log(self, snapshot: OffsetAndEpoch) -> None:
        """Lets the log start at the end of this snapshot."""


Trace = Callable[["Event"], None]


class Event(NamedTuple):
    """Something worth telling: a role, a vote, a truncation. `what` is fixed text, `values` are its particulars."""

    now_ms: int
    what: str
    values: tuple[tuple[str, object], ...]

    def __str__(self) -> str:
        return " ".join([self.what, *(f"{name}={value}" for name, value in self.values)])
