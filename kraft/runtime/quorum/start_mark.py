"""The mark that a metadata log leaves beside its directory: it states what must exist at the next start.

    <metadata.log.dir>/.kraft-metadata-log     {"version":0,"records":true,"epoch":7}
    <other log dir>/.kraft-voter               {"version":0,"directory":"<its id>","epoch":7}

A controller that finds no vote or no log would begin as a new one. It could vote a second time in an epoch, or count
towards a majority for records that it lost. A formatted directory without the mark is new; one with it is not. The mark
is written when `quorum-state` is durable, and again when the log has its first committed record. Directories that Kafka
wrote have none. There, records or snapshots without `quorum-state`, or partitions without a metadata log, are refused.

The other log directories of a node outlive the one with the metadata log. Each names the directory id with which this
node votes. A metadata directory that was lost and formatted again is then not mistaken for that of a new voter. That
could happen in a quorum of configured voters, which does not distinguish disks, or when it was formatted with the
previous id. The epoch is that of the last vote before a clean stop, so that an older `quorum-state` from a copy is
noticed. docs/node.md lists what no mark can show.

Only controllers need it. A broker never votes, and fetches what it lost again.
"""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from kraft.protocol.ids import id_of, id_text
from kraft.runtime.quorum.state_file import NAME as QUORUM_STATE
from kraft.runtime.quorum.state_file import QuorumStateFile
from kraft.runtime.storage.formatting import KEEP_DATA, META_PROPERTIES, describe, read_identity
from kraft.runtime.storage.metadata_directory import DIRECTORY_NAME, START_MARK, VOTER_MARK
from kraft.runtime.storage.snapshot_files import list_snapshots
from kraft.structs import immutable
from kraft_native.base.errors import CorruptFileError, StorageError
from kraft_native.batch.batch import LENGTH_AT, OVERHEAD_BYTES
from kraft_native.file import file_io
from kraft_native.segment import checkpoints

log = logging.getLogger(__name__)

NO_EPOCH: Final = -1
EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
WAYS_OUT: Final = ("Ways out: restore the directory as it was; where other controllers have the log, remove this one "
                   "from the quorum (kraft quorum remove), delete meta.properties and "
                   f"{START_MARK} beside it, run {KEEP_DATA} --no-initial-controllers, and add it again")


@immutable
class VoterMark:
    """A log directory's note about the metadata directory beside it."""

    directory_id: UUID
    epoch: int

    @classmethod
    def read(cls, directory: Path) -> "VoterMark | None":
        """Read the mark; None without one. Raises `CorruptFileError` for one that cannot be read."""
        path = directory / VOTER_MARK
        if not path.exists():
            return None
        try:
            content = _content(path)
            return cls(id_of(content["directory"]), _epoch(content))
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(f"{path}: it cannot be read ({error!r}); delete it if the metadata log of this node "
                                   f"was neither lost nor restored from a copy") from error

    def write(self, directory: Path) -> None:
        file_io.write_atomic(directory / VOTER_MARK, _encoded(
            directory=id_text(self.directory_id), epoch=self.epoch))


class StartMark:
    """The marks of one metadata directory. Loop thread only; each write is durable. `others`: log directories beside
    it, which get a `VoterMark`; a failing one does not stop the node."""

    def __init__(self, metadata_directory: Path, others: Sequence[Path] = ()) -> None:
        self._path = metadata_directory / START_MARK
        self._others = others
        self._identity = read_identity(metadata_directory)
        self._is_copied = False
        self.exists = self._path.exists()
        self.has_records, self.epoch = self._read() if self.exists else (False, NO_EPOCH)
        self.noted = self.epoch, str(self._path)
        """The latest epoch in any mark, and that mark's path."""

    @property
    def directory_id(self) -> UUID | None:
        return None if self._identity is None else self._identity.directory_id

    def _read(self) -> tuple[bool, int]:
        try:
            content = _content(self._path)
            return bool(content["records"]), _epoch(content)
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(f"{self._path}: it cannot be read ({error!r}); delete it if quorum-state and the "
                                   f"metadata log beside it are whole") from error

    def note(self, *, records: bool) -> None:
        """Record that `quorum-state` is durable and, with `records`, that the log has a committed record."""
        if not self.exists or records > self.has_records:
            self.exists, self.has_records = True, records or self.has_records
            self._write()
        if not self._is_copied:
            self._is_copied = True
            self._copy()

    def check_vote(self, epoch: int, log_end_epoch: int) -> None:
        """Raise `CorruptFileError` when `quorum-state` has an earlier `epoch` than one in which this node has taken
        part.

        Not called for the only voter. A copy of its files harms no other voter. And when its process is killed it may
        have written the first record of an epoch, but not yet its vote for itself. In a larger quorum the votes come
        before there is a leader.
        """
        known, by = max(self.noted, (log_end_epoch, "the end of the metadata log beside it"))
        if epoch < known:
            raise CorruptFileError(
                f"{self._path.parent / DIRECTORY_NAME / QUORUM_STATE}: it is of epoch {epoch}, but this controller has "
                f"taken part in epoch {known} ({by}): the file is older, from a copy, and the node could vote twice. "
                f"{WAYS_OUT}")

    def close(self, epoch: int) -> None:
        """Record the stop of the node; `quorum-state` is durable with this epoch."""
        if self.exists and epoch > self.epoch:
            self.epoch = epoch
            try:
                self._write()
            except (OSError, StorageError) as error:
                log.warning("%s: the last epoch cannot be noted: %s", self._path, error)
            self._copy()

    def _write(self) -> None:
        file_io.write_atomic(self._path, _encoded(records=self.has_records, epoch=self.epoch))

    def _copy(self) -> None:
        if self.directory_id is None:
            return
        wanted = VoterMark(self.directory_id, self.epoch)
        for path in self._others:
            try:
                if (path / META_PROPERTIES).exists() and VoterMark.read(path) != wanted:
                    wanted.write(path)
            except (OSError, StorageError, CorruptFileError) as error:
                log.warning("%s: the mark of this voter cannot be written: %s", path, error)


def _content(path: Path) -> dict[str, Any]:
    content = json.loads(file_io.read_file(path))
    if content["version"] != 0:
        raise ValueError(f"version {content['version']} is not 0")
    found: dict[str, Any] = content
    return found


def _encoded(**fields: object) -> bytes:
    return json.dumps({"version": 0, **fields}, separators=(",", ":")).encode()


def _epoch(content: dict[str, Any]) -> int:
    epoch = content.get("epoch", NO_EPOCH)
    if type(epoch) is not int or epoch < NO_EPOCH:
        raise ValueError(f"epoch: {epoch!r} is no epoch")
    return epoch


def check_metadata_log(metadata_directory: Path, log_dirs: Sequence[Path], *, is_static: bool = False) -> StartMark:
    """Check the directory before a controller opens its log. Raises `CorruptFileError` when the vote or the log of an
    earlier start is missing. `is_static`: the voters are configured, and there are others."""
    others = [path for path in log_dirs if path != metadata_directory]
    mark = StartMark(metadata_directory, others)
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
    for path in others:
        voter = VoterMark.read(path)
        if voter is None or not (is_static or voter.directory_id == mark.directory_id):
            continue
        if not has_state:
            raise _lost(
                directory, f"the metadata log with which this controller has voted ({path / VOTER_MARK})",
                f"; if all other voters run and one of them leads (kraft quorum describe), delete {VOTER_MARK} in each "
                "log directory: this node then fetches the metadata again")
        mark.noted = max(mark.noted, (voter.epoch, str(path / VOTER_MARK)))
    return mark


def _has_records(directory: Path) -> bool:
    return (any(map(_begins_with_a_batch, directory.glob("*.log")))
            or any(each.end_offset > 0 for each in list_snapshots(directory)))


def _begins_with_a_batch(segment: Path) -> bool:
    """Return whether a segment holds data. A new one is empty, or holds preallocated zeros; a batch begins with its
    offset and its size."""
    with segment.open("rb") as file:
        head = file.read(OVERHEAD_BYTES)
    return len(head) == OVERHEAD_BYTES and any(head[LENGTH_AT:])


def _alone(directory: Path) -> str:
    """Remedy for the only controller of a cluster: no other node can have its vote, and its epochs are in the log."""
    try:
        epochs = checkpoints.read_leader_epochs(directory / EPOCH_CHECKPOINT)
    except (CorruptFileError, StorageError):
        return ""
    state = QuorumStateFile(leader_epoch=max((epoch for epoch, _ in epochs), default=0)).encode().decode()
    return f"; where it is the only controller, write {state} to the file"


def _lost(path: Path, what: str, alone: str = "") -> CorruptFileError:
    return CorruptFileError(f"{path}: {what} is missing, and without it the node could vote twice or lose committed "
                            f"metadata. {WAYS_OUT}{alone}")
