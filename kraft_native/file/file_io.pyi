"""Files: the only entry of the engine to the file system. Any thread may call these functions."""

from os import PathLike
from typing import Self, TypeAlias, final

from kraft_native.base.errors import StorageError

_Path: TypeAlias = str | bytes | PathLike[str] | PathLike[bytes]

def open_descriptors() -> int:
    """Number of descriptors that this module has open: must return to its old value when everything is closed."""

def read_file(path: _Path) -> bytes:
    """Read the whole file."""

def write_atomic(path: _Path, data: bytes, *, durable: bool = True) -> None:
    """Replace the file so that a reader, and a restart, sees the old content or the new one and nothing in between."""

def sync_directory(path: _Path) -> None:
    """Make the directory's entries (creations, renames, removals) durable."""

def rename(source: _Path, target: _Path) -> None:
    """Rename without flushing the directory."""

def unlink(path: _Path, *, missing_ok: bool = False) -> None:
    """Remove the name without flushing the directory."""

UNREADABLE: frozenset[int]

def is_unreadable(error: StorageError) -> bool:
    """Return whether a `StorageError` means that one name cannot be read, and not that the device fails."""

def set_aside(path: _Path) -> str:
    """Rename whatever has the name of a file to be created again; return the new path. Nothing is deleted."""

def remove_or_set_aside(path: _Path) -> None:
    """Remove a file whose content means nothing any more. A directory of that name is renamed."""

def make_directory(path: _Path) -> None:
    """Create one directory level without flushing its parent."""

@final
class NewFile:
    """A file written from its beginning; the constructor creates or empties it. One thread owns it.

    After a failed `write` or `sync` the content is undefined: the file must be discarded.
    """

    def __new__(cls, path: _Path) -> Self: ...
    @property
    def size(self) -> int: ...
    def write(self, data: bytes) -> None:
        """Add the bytes at the end."""

    def sync(self) -> None:
        """Make the written bytes durable; the name is durable when the directory is. Waits for the disk without the
        GIL."""

    def close(self) -> None:
        """Close the descriptor. Idempotent."""

@final
class FileLock:
    """An exclusive lock on a file, created when missing, held until `release` or the end of the process."""

    def __new__(cls, path: _Path) -> Self: ...
    @property
    def acquired(self) -> bool: ...
    def release(self) -> None: ...
