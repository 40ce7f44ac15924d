"""The consensus core's snapshot port on Kafka's snapshot files."""

import logging
from collections.abc import Callable, Generator
from pathlib import Path

from kraft.metadata.control_records import QuorumRecords
from kraft.metadata.errors import MetadataLogError
from kraft.metadata.snapshot import SnapshotContent, decode_snapshot, decode_snapshot_steps
from kraft.raft.ports import SnapshotPart
from kraft.raft.records import ControlRecord, of_message
from kraft.raft.types import OffsetAndEpoch
from kraft.runtime.quorum.raft_log import RaftLog
from kraft.runtime.storage.snapshot_files import (
    ReceivedSnapshot,
    SnapshotId,
    list_snapshots,
    remove_snapshot,
)
from kraft.steps import finish
from kraft.structs import mutable
from kraft_native.base.errors import CorruptRecordError, KraftError
from kraft_native.file import file_io

logger = logging.getLogger(__name__)


@mutable
class _Check:
    """Check of a received snapshot: under way, or ended with one of the two."""

    steps: Generator[None, None, None] | None = None
    content: SnapshotContent | None = None
    error: CorruptRecordError | None = None


class RaftSnapshots:
    """`SnapshotPort` in the directory of `log`. A snapshot is received into a separate file, and joins the others when
    it is whole and was decoded. It is decoded in steps, which `run_steps` does now or later; `on_checked` is called
    when that is done.

    Damaged snapshots are ignored when the log or an older snapshot reaches back far enough. Raises `MetadataLogError`
    when no readable snapshot has what the log begins after.
    """

    def __init__(self, directory: Path, log: RaftLog, run_steps: Callable[[Generator[None]], None] = finish,
                 on_checked: Callable[[], None] = lambda: None) -> None:
        self.directory = directory
        self._log = log
        self._ids = list_snapshots(directory)
        self._run_steps = run_steps
        self._on_checked = on_checked
        self._receiving: ReceivedSnapshot | None = None
        self._check: _Check | None = None
        self._read: tuple[SnapshotId, SnapshotContent] | None = None
        self._quorum: tuple[SnapshotId, QuorumRecords] | None = None
        self._pass_over_damaged()

    def _pass_over_damaged(self) -> None:
        """Read the newest readable snapshot, and drop the damaged ones after it."""
        log_start, reasons = self._log.start_offset, []
        while self._ids and self._ids[-1].end_offset >= log_start:
            try:
                self._hold(self._ids[-1], self._decoded(self._ids[-1]))
            except CorruptRecordError as error:
                reasons.append(str(error))
                logger.warning("metadata snapshot passed over: %s", reasons[-1])
                self._ids.pop()
            else:
                return
        if log_start > 0:
            why = f" ({'; '.join(reasons)})" if reasons else ""
            raise MetadataLogError(f"{self.directory}: the log begins at {log_start}, and there is no readable "
                                   f"snapshot that ends there or later{why}")

    def latest(self) -> OffsetAndEpoch | None:
        return OffsetAndEpoch(*self._ids[-1]) if self._ids else None

    def read(self, snapshot: OffsetAndEpoch, position: int, max_bytes: int) -> SnapshotPart | None:
        wanted = SnapshotId(*snapshot)
        if wanted not in self._ids:
            return None
        with (self.directory / wanted.file_name).open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, position))
            return SnapshotPart(size, file.read(max_bytes))

    def begin(self, snapshot: OffsetAndEpoch) -> None:
        self.abandon()
        self._receiving = ReceivedSnapshot(self.directory, SnapshotId(*snapshot))

    def append(self, data: bytes) -> None:
        assert self._receiving is not None
        self._receiving.append(data)

    def abandon(self) -> None:
        received, self._receiving = self._receiving, None
        check, self._check = self._check, None
        if check is not None and check.steps is not None:
            check.steps.close()
        if received is not None:
            received.abandon()

    def install(self) -> bool:
        assert self._receiving is not None
        received, check = self._receiving, self._check
        if check is None:
            check = self._check = _Check()
            check.steps = self._check_steps(check, received)
            self._run_steps(check.steps)
        if check.error is not None:
            self.abandon()
            raise check.error
        if check.content is None:
            return False
        self._receiving = self._check = None
        received.finish()
        self._hold(received.id, check.content)
        self._add(received.id)
        self._log.restart_at(OffsetAndEpoch(*received.id))
        self.remove_before_log()
        return True

    def _check_steps(self, check: _Check, received: ReceivedSnapshot) -> Generator[None, None, None]:
        try:
            check.content = yield from decode_snapshot_steps(received.content())
        except KraftError as error:
            check.error = _damaged(received.id, error)
        check.steps = None
        self._on_checked()

    def controls(self, snapshot: OffsetAndEpoch) -> tuple[ControlRecord, ...]:
        found = map(of_message, self.quorum(snapshot).messages())
        return tuple(record for record in found if record is not None)

    def trim_log(self, snapshot: OffsetAndEpoch) -> None:
        self._log.trim(snapshot)
        self.remove_before_log()

    # --- for its owners

    @property
    def ids(self) -> tuple[SnapshotId, ...]:
        """The existing snapshots, oldest first."""
        return tuple(self._ids)

    def content(self, snapshot: OffsetAndEpoch) -> SnapshotContent:
        """Read a snapshot that exists. The content read at the start or at the installation is returned once, then
        dropped."""
        wanted = SnapshotId(*snapshot)
        read, self._read = self._read, None
        return read[1] if read is not None and read[0] == wanted else self._decoded(wanted)

    def quorum(self, snapshot: OffsetAndEpoch) -> QuorumRecords:
        """Records of the quorum in a snapshot."""
        wanted = SnapshotId(*snapshot)
        if self._quorum is not None and self._quorum[0] == wanted:
            return self._quorum[1]
        return self._decoded(wanted).quorum

    def add(self, snapshot: SnapshotId) -> bool:
        """Add a snapshot that was written here (`write_snapshot`). Returns False, and removes it, when the log begins
        behind its end by now."""
        self._add(snapshot)
        self.remove_before_log()
        return snapshot in self._ids

    def remove_before_log(self) -> None:
        """Remove the snapshots that end before the log begins: no log can continue from them."""
        for older in [each for each in self._ids if each.end_offset < self._log.start_offset]:
            remove_snapshot(self.directory, older)
            self._ids.remove(older)

    def close(self) -> None:
        """Abandon a snapshot that is not whole."""
        self.abandon()

    def _add(self, snapshot: SnapshotId) -> None:
        if snapshot not in self._ids:
            self._ids = sorted([*self._ids, snapshot])

    # --- reading

    def _decoded(self, snapshot: SnapshotId) -> SnapshotContent:
        return _decode(snapshot, file_io.read_file(self.directory / snapshot.file_name))

    def _hold(self, snapshot: SnapshotId, content: SnapshotContent) -> None:
        self._read = snapshot, content
        self._quorum = snapshot, content.quorum


def _decode(snapshot: SnapshotId, data: bytes) -> SnapshotContent:
    """Decode a snapshot. Raises `CorruptRecordError` when the bytes are no snapshot."""
    try:
        return decode_snapshot(data)
    except (CorruptRecordError, MetadataLogError) as error:
        raise _damaged(snapshot, error) from error


def _damaged(snapshot: SnapshotId, error: Exception) -> CorruptRecordError:
    return CorruptRecordError(f"{snapshot.file_name}: {error}")
