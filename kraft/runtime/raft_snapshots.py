"""The consensus core's snapshot port on Kafka's snapshot files."""

from pathlib import Path

from kraft.metadata.errors import MetadataLogError
from kraft.metadata.quorum import QuorumRecords
from kraft.metadata.snapshot import decode_snapshot
from kraft.raft.ports import SnapshotPart
from kraft.raft.records import ControlRecord, of_message
from kraft.raft.types import OffsetAndEpoch
from kraft.runtime.raft_log import RaftLog
from kraft.runtime.snapshot_files import SnapshotId, list_snapshots, remove_snapshot, write_snapshot
from kraft_native import fileio
from kraft_native.errors import CorruptRecordError


class RaftSnapshots:
    """`SnapshotPort` in the directory of `log`. A snapshot that is received is held in memory until it is whole."""

    def __init__(self, directory: Path, log: RaftLog) -> None:
        self.directory = directory
        self._log = log
        self._ids = list_snapshots(directory)
        self._receiving: tuple[SnapshotId, bytearray] | None = None

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
        self._receiving = SnapshotId(*snapshot), bytearray()

    def append(self, data: bytes) -> None:
        assert self._receiving is not None
        self._receiving[1].extend(data)

    def abandon(self) -> None:
        self._receiving = None

    def install(self) -> None:
        assert self._receiving is not None
        (snapshot, content), self._receiving = self._receiving, None
        data = bytes(content)
        try:
            decode_snapshot(data)
        except MetadataLogError as error:
            raise CorruptRecordError(f"{snapshot.file_name}: {error}") from error
        self.write(snapshot, data)
        self._log.restart_at(OffsetAndEpoch(*snapshot))

    def controls(self, snapshot: OffsetAndEpoch) -> tuple[ControlRecord, ...]:
        found = map(of_message, self.quorum(snapshot).messages())
        return tuple(record for record in found if record is not None)

    def trim_log(self, snapshot: OffsetAndEpoch) -> None:
        self._log.trim(snapshot)
        for older in [each for each in self._ids if each < SnapshotId(*snapshot)]:
            remove_snapshot(self.directory, older)
            self._ids.remove(older)

    # --- for its owners

    @property
    def ids(self) -> tuple[SnapshotId, ...]:
        """Those that are there, oldest first."""
        return tuple(self._ids)

    def content(self, snapshot: OffsetAndEpoch) -> bytes:
        """The file of a snapshot that is there."""
        return fileio.read_file(self.directory / SnapshotId(*snapshot).file_name)

    def quorum(self, snapshot: OffsetAndEpoch) -> QuorumRecords:
        """What a snapshot says about the quorum."""
        return decode_snapshot(self.content(snapshot)).quorum

    def write(self, snapshot: SnapshotId, data: bytes) -> None:
        """Adds a snapshot, durably."""
        write_snapshot(self.directory, snapshot, [data])
        if snapshot not in self._ids:
            self._ids = sorted([*self._ids, snapshot])
