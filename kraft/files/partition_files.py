"""A partition directory as a tool sees it: what files there are and how far they may be read. Nothing here writes."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kraft_native.base.errors import InvalidArgumentError, StorageError
from kraft_native.file import file_io
from kraft_native.log.live import FILE_NAME as LIVE_FILE
from kraft_native.log.live import LiveView
from kraft_native.log.marks import noted_log_start
from kraft_native.segment import checkpoints
from kraft_native.segment.audit import SegmentAudit

LOG_FILE = re.compile(r"[0-9]{20}\.log")
EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
ERRNO_NOT_FOUND = 2


@dataclass(frozen=True, slots=True)
class SegmentFiles:
    """One segment's files. `next_base` is the base offset of the next segment, -1 for the last one."""

    directory: Path
    base_offset: int
    next_base: int

    @property
    def is_last(self) -> bool:
        return self.next_base < 0

    def path(self, suffix: str) -> Path:
        return self.directory / f"{self.base_offset:020d}{suffix}"

    def read(self, suffix: str) -> bytes | None:
        """Return the whole file; None when it is missing."""
        try:
            return file_io.read_file(self.path(suffix))
        except StorageError as error:
            if error.errno != ERRNO_NOT_FOUND:
                raise
            return None


class PartitionFiles:
    """A directory with segments, of Kafka or of kraft, whether or not somebody has it open. `InvalidArgumentError` when
    it is none."""

    def __init__(self, directory: Path) -> None:
        if not directory.is_dir():
            raise InvalidArgumentError(f"{directory} is not a directory")
        self.directory = directory
        bases = sorted(int(path.stem) for path in directory.iterdir() if LOG_FILE.fullmatch(path.name))
        if not bases:
            raise InvalidArgumentError(f"{directory} is not a partition directory: it has no segment "
                                       "(<base offset>.log)")
        self.segments = [SegmentFiles(directory, base, following)
                         for base, following in zip(bases, [*bases[1:], -1], strict=True)]

    @property
    def size_bytes(self) -> int:
        return sum(segment.path(".log").stat().st_size for segment in self.segments if segment.path(".log").exists())

    @property
    def is_ours(self) -> bool:
        """True when kraft had it open: it then may have left room at the end of the last segment, as zeros."""
        return (self.directory / LIVE_FILE).exists()

    def live(self) -> dict[str, int] | None:
        """Current view of the log's owner for readers; None when no kraft process has it open."""
        try:
            view = LiveView(self.directory)
        except FileNotFoundError:
            return None
        return view.state() if view.owner_alive else None

    def log_start(self, shared: checkpoints.SharedOffsets | None = None) -> int:
        """First offset that may be read: of the owner, else of the state or checkpoint that the last one left.
        `shared`: the checkpoints of a plan over several logs."""
        if state := self.live():
            return state["log_start"]
        return max(self.segments[0].base_offset, noted_log_start(os.fsencode(self.directory.resolve()), shared))

    def log_end(self) -> int | None:
        """First offset that a read_uncommitted consumer does not see, the owner's high watermark; None without an
        owner."""
        state = self.live()
        return state["high_watermark"] if state else None

    def audit(self, segment: SegmentFiles, *, check_crc: bool = True) -> SegmentAudit | None:
        """A walk over the segment as far as its owner has filled it; None when the owner has removed it meanwhile."""
        state = self.live() if segment.is_last else None
        end_bytes = state["active_bytes"] if state and state["active_base"] == segment.base_offset else -1
        try:
            return SegmentAudit(segment.path(".log"), segment.base_offset, next_base=segment.next_base,
                                end_bytes=end_bytes, check_crc=check_crc,
                                zeros_end=segment.is_last and self.is_ours)
        except StorageError as error:
            if error.errno != ERRNO_NOT_FOUND:
                raise
            return None

    def leader_epochs(self) -> list[tuple[int, int]] | None:
        """The epochs with their start offsets; None without the file. Raises CorruptFileError."""
        path = self.directory / EPOCH_CHECKPOINT
        return checkpoints.read_leader_epochs(path) if path.exists() else None

    def snapshots(self) -> Iterator[Path]:
        """The producer snapshots, oldest first."""
        yield from sorted(path for path in self.directory.iterdir() if re.fullmatch(r"[0-9]{20}\.snapshot", path.name))
