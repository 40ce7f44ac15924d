"""A consistent copy of a log in a directory of its own.

Files are copied, not linked: truncation and appends change files in place, and a link would change with them. The
kernel shares blocks where the file system can (Btrfs, XFS). The copy is opened before it gets its final name: that
reads and checks every batch and rebuilds the indexes of the last segment.
"""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Final, NamedTuple

from kraft_native.base.errors import CorruptFileError, InvalidArgumentError, OperationError
from kraft_native.facade.log import Log
from kraft_native.file.file_io import sync_directory

MANIFEST: Final = "backup.json"
SEALED_SUFFIXES: Final = (".index", ".timeindex")
WHOLE_FILES: Final = ("leader-epoch-checkpoint", "partition.metadata")
WHOLE_SUFFIXES: Final = (".snapshot", ".txnindex")
# Files that a log holds open, or writes at every open: they do not belong to the copy.
UNSTABLE: Final = (".lock", "kraft.live", MANIFEST)
COPY_BYTES: Final = 8 << 20


class FileDigest(NamedTuple):
    """Size and SHA-256 of a file."""

    size_bytes: int
    sha256: str


class Backup(NamedTuple):
    """Finished copy: its directory, the offsets [start, end) that it holds, and the digest of each segment file."""

    directory: Path
    log_start_offset: int
    log_end_offset: int
    files: dict[str, FileDigest]


def make_backup(log: Log, to: str | os.PathLike[str]) -> Backup:
    """Copy everything that was appended to the new directory `to`, durably. Call it from the log's own thread, which
    therefore appends nothing meanwhile.

    After a crash either no directory of that name exists or the whole copy. Raises `InvalidArgumentError` when `to`
    exists or its parent does not; `OperationError` when the copy does not hold what the log does; what `flush` raises.
    """
    target = Path(to)
    if target.exists():
        raise InvalidArgumentError(f"to: {target} exists")
    if not target.parent.is_dir():
        raise InvalidArgumentError(f"to: there is no directory {target.parent}")
    log.flush()
    staged = target.with_name(f"{target.name}.part")
    if staged.exists():
        shutil.rmtree(staged)       # of a copy that was interrupted
    staged.mkdir()
    try:
        _copy_files(log, staged)
        _settle(log, staged)
        files = digests(staged)
        backup = Backup(target, log.log_start_offset, log.log_end_offset, files)
        (staged / MANIFEST).write_text(json.dumps({
            "log_start_offset": backup.log_start_offset, "log_end_offset": backup.log_end_offset,
            "files": {name: each._asdict() for name, each in files.items()}}, indent=1) + "\n", "utf-8")
        for path in staged.iterdir():
            _sync(path)
        sync_directory(staged)
    except BaseException:
        shutil.rmtree(staged)
        raise
    staged.rename(target)
    sync_directory(target.parent)
    return backup


def check_backup(directory: str | os.PathLike[str]) -> list[str]:
    """Return the segment files of a copy that are missing or whose content has changed since the copy was created.
    Raises `CorruptFileError` when the manifest cannot be read. Call it before the copy is opened for writing."""
    path = Path(directory) / MANIFEST
    try:
        files = {name: FileDigest(**each) for name, each in json.loads(path.read_text("utf-8"))["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptFileError(f"{path}: no manifest of a backup: {error}") from error
    now = digests(Path(directory))
    return [name for name, digest in files.items() if now.get(name) != digest]


def digests(directory: Path) -> dict[str, FileDigest]:
    """Return the digest of each segment file in a directory."""
    found = {}
    for path in sorted(directory.glob("*.log")):
        with path.open("rb") as file:
            found[path.name] = FileDigest(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())
    return found


def _copy_files(log: Log, target: Path) -> None:
    source = Path(log.directory)
    segments = log.segments
    for segment in segments:
        name = f"{segment.base_offset:020d}"
        _copy(source / f"{name}.log", target / f"{name}.log", segment.size)
        if segment.base_offset != segments[-1].base_offset:
            for suffix in SEALED_SUFFIXES:
                _copy_whole(source / f"{name}{suffix}", target)
    for path in sorted(source.iterdir()):
        if path.name in WHOLE_FILES or path.suffix in WHOLE_SUFFIXES:
            _copy_whole(path, target)


def _settle(log: Log, directory: Path) -> None:
    """Open the copy, which checks it, and close it cleanly."""
    config = log.config.replace(durability="page-cache")
    with Log(directory, config, log_start_offset=log.log_start_offset) as copy:
        found, wanted = ((each.log_start_offset, each.log_end_offset) for each in (copy, log))
        if found != wanted:
            raise OperationError(f"{directory}: the copy holds offsets {found[0]} to {found[1]}, the log {wanted[0]} "
                                 f"to {wanted[1]}; its recovery says {copy.recovery}")
    for name in UNSTABLE:
        (directory / name).unlink(missing_ok=True)


def _copy_whole(path: Path, target: Path) -> None:
    if path.exists():
        _copy(path, target / path.name, path.stat().st_size)


def _copy(source: Path, target: Path, size: int) -> None:
    """Copy the first `size` bytes. The kernel copies or shares the blocks."""
    with source.open("rb") as from_file, target.open("wb") as to_file:
        left = size
        while left > 0:
            count = os.copy_file_range(from_file.fileno(), to_file.fileno(), min(left, COPY_BYTES))
            if count == 0:
                raise OperationError(f"{source}: it ends {left} bytes before its {size}")
            left -= count


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
