"""The snapshots in the directory of a metadata log (KIP-630).

    <end offset, 20 digits>-<epoch, 10 digits>.checkpoint          a whole snapshot; the end offset is exclusive
    ... .checkpoint.part                                           being received, worthless after a crash
    ... -own.checkpoint.part                                       being written here, the same
    ... .checkpoint.deleted                                        being removed
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple, Self

from kraft_native.file import file_io

SUFFIX: Final = ".checkpoint"
PART: Final = ".part"
DELETED: Final = ".deleted"
READ_ONLY: Final = 0o400

_NAME: Final = re.compile(r"(?P<end_offset>\d{20})-(?P<epoch>\d{10})\.checkpoint")


class SnapshotId(NamedTuple):
    """Snapshot of the log below `end_offset`, whose last record is of `epoch`."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}{SUFFIX}"

    @classmethod
    def of(cls, file_name: str) -> Self | None:
        match = _NAME.fullmatch(file_name)
        return None if match is None else cls(int(match["end_offset"]), int(match["epoch"]))


def list_snapshots(directory: Path) -> list[SnapshotId]:
    """The whole snapshots, oldest first."""
    return sorted(found for name in os.listdir(directory) if (found := SnapshotId.of(name)) is not None)


def remove_leftovers(directory: Path) -> None:
    """Remove the files of an interrupted write or removal."""
    for name in sorted(os.listdir(directory)):
        if name.endswith((SUFFIX + PART, SUFFIX + PART + ".tmp", SUFFIX + DELETED)):
            file_io.unlink(directory / name)


def write_snapshot(directory: Path, snapshot: SnapshotId, batches: Iterable[bytes]) -> int:
    """Write a snapshot whose name appears only when it is whole and durable; return its size in bytes. May run in any
    thread, while the same snapshot is being received."""
    part = directory / (snapshot.file_name.removesuffix(SUFFIX) + "-own" + SUFFIX + PART)
    data = b"".join(batches)
    file_io.write_atomic(part, data)
    _name(directory, part, snapshot)
    return len(data)


class ReceivedSnapshot:
    """A snapshot that is received piece by piece. `finish` gives it its name; a crash before that leaves only a partial
    file, which is ignored."""

    def __init__(self, directory: Path, snapshot: SnapshotId) -> None:
        self.id = snapshot
        self._directory = directory
        self._part = directory / (snapshot.file_name + PART)
        self._file = file_io.NewFile(self._part)

    def append(self, data: bytes) -> None:
        self._file.write(data)

    def content(self) -> bytes:
        """All bytes received so far."""
        return file_io.read_file(self._part)

    def finish(self) -> None:
        """Make the whole snapshot durable under its name."""
        self._file.sync()
        self._file.close()
        _name(self._directory, self._part, self.id)

    def abandon(self) -> None:
        """Remove all of it."""
        self._file.close()
        file_io.unlink(self._part, missing_ok=True)


def _name(directory: Path, part: Path, snapshot: SnapshotId) -> None:
    os.chmod(part, READ_ONLY)
    file_io.rename(part, directory / snapshot.file_name)
    file_io.sync_directory(directory)


def remove_snapshot(directory: Path, snapshot: SnapshotId) -> None:
    file_io.unlink(directory / snapshot.file_name, missing_ok=True)
    file_io.sync_directory(directory)
