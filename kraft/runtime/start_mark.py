"""The mark that a metadata log leaves beside its directory: what must exist at the next start.

    <metadata.log.dir>/.kraft-metadata-log     {"version":0,"records":true}

A controller that finds no vote or no log would begin as a new one: it could vote a second time in an epoch, or count
towards a majority for records that it lost. A formatted directory without the mark is new; one with it is not. The mark
is written when `quorum-state` is durable, and again when the log has its first committed record. Directories that Kafka
wrote have none: there, records or snapshots without `quorum-state`, or partitions without a metadata log, are refused.

Only controllers need it. A broker never votes, and fetches what it lost again.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kraft.runtime.metadata_directory import DIRECTORY_NAME, START_MARK
from kraft.runtime.quorum_state import NAME as QUORUM_STATE
from kraft.runtime.quorum_state import QuorumStateFile
from kraft.runtime.snapshot_files import list_snapshots
from kraft.runtime.storage import KEEP_DATA, describe
from kraft_native import checkpoints, fileio
from kraft_native.errors import CorruptFileError, StorageError

BATCH_HEAD_BYTES: Final = 12
EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
WAYS_OUT: Final = ("Ways out: restore the directory as it was; where other controllers have the log, remove this one "
                   "from the quorum (kraft quorum remove), delete meta.properties and "
                   f"{START_MARK} beside it, run {KEEP_DATA} --no-initial-controllers, and add it again")


class StartMark:
    """The mark in one metadata directory. Loop thread only; each write is durable."""

    def __init__(self, metadata_directory: Path) -> None:
        self._path = metadata_directory / START_MARK
        self.exists = self._path.exists()
        self.has_records = self.exists and self._read()

    def _read(self) -> bool:
        try:
            content = json.loads(fileio.read_file(self._path))
            return {0: bool(content["records"])}[content["version"]]
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(f"{self._path}: it cannot be read ({error!r}); delete it if quorum-state and the "
                                   f"metadata log beside it are whole") from error

    def note(self, *, records: bool) -> None:
        """`quorum-state` is durable and, with `records`, the log has a committed record."""
        if not self.exists or records > self.has_records:
            self.exists, self.has_records = True, records or self.has_records
            fileio.write_atomic(self._path, json.dumps(
                {"version": 0, "records": self.has_records}, separators=(",", ":")).encode())


def check_metadata_log(metadata_directory: Path, log_dirs: Sequence[Path]) -> StartMark:
    """Before a controller opens its log: `CorruptFileError` when the vote or the log of an earlier start is missing."""
    mark = StartMark(metadata_directory)
    directory = metadata_directory / DIRECTORY_NAME
    has_state = (directory / QUORUM_STATE).exists()
    has_records = directory.is_dir() and _has_records(directory)
    if not directory.is_dir():
        if mark.exists or any(describe(path).partitions for path in (metadata_directory, *log_dirs)):
            elsewhere = next((path for path in log_dirs if (path / DIRECTORY_NAME).is_dir()), None)
            raise _lost(directory, "the metadata log of this controller",
                        f"; {elsewhere} holds one: if it is this node's, let metadata.log.dir name that directory"
                        if elsewhere else "")
    elif not has_state and (mark.exists or has_records):
        raise _lost(directory / QUORUM_STATE, "the vote of this controller", _alone(directory))
    elif mark.has_records and not has_records:
        raise _lost(directory, "every record of the metadata log")
    return mark


def _has_records(directory: Path) -> bool:
    return (any(map(_begins_with_a_batch, directory.glob("*.log")))
            or any(each.end_offset > 0 for each in list_snapshots(directory)))


def _begins_with_a_batch(segment: Path) -> bool:
    """A new segment is empty, or holds zeros that were reserved ahead; a batch begins with its offset and its size."""
    with segment.open("rb") as file:
        head = file.read(BATCH_HEAD_BYTES)
    return len(head) == BATCH_HEAD_BYTES and any(head[8:])


def _alone(directory: Path) -> str:
    """The way out of the only controller of a cluster: nobody else can have its vote, and its epochs are in the log."""
    try:
        epochs = checkpoints.read_leader_epochs(directory / EPOCH_CHECKPOINT)
    except (CorruptFileError, StorageError):
        return ""
    state = QuorumStateFile(leader_epoch=max((epoch for epoch, _ in epochs), default=0)).encode().decode()
    return f"; where it is the only controller, write {state} to the file"


def _lost(path: Path, what: str, alone: str = "") -> CorruptFileError:
    return CorruptFileError(f"{path}: {what} is missing, and without it the node could vote twice or lose committed "
                            f"metadata. {WAYS_OUT}{alone}")
