"""Files: the one door through which the engine reaches the file system. Any thread may call these functions."""

from os import PathLike
from typing import Self, TypeAlias, final

from kraft_native.errors import StorageError

_Path: TypeAlias = str | bytes | PathLike[str] | PathLike[bytes]

def open_descriptors() -> int:
    """How many descriptors this module has open: must be back at its old value when everything is closed."""

def read_file(path: _Path) -> bytes:
    """The whole file as bytes."""

def write_atomic(path: _Path, data: bytes, *, durable: bool = True) -> None:
    """Replaces the file so that a reader, and a restart, sees the old content or the new one and nothing between."""

def sync_directory(path: _Path) -> None:
    """Makes the directory's entries (creations, renames, removals) durable."""

def rename(source: _Path, target: _Path) -> None:
    """Renames without flushing the directory."""

def unlink(path: _Path, *, missing_ok: bool = False) -> None:
    """Removes the name without flushing the directory."""

UNREADABLE: frozenset[int]

def is_unreadable(error: StorageError) -> bool:
    """Whether a `StorageError` says that one name cannot be read, and not that the device fails."""

def set_aside(path: _Path) -> str:
    """Renames what has the name of a file that is made again, and gives the new path. Nothing is deleted."""

def remove_or_set_aside(path: _Path) -> None:
    """Removes a file whose content means nothing any more. A directory of that name is renamed."""

def make_directory(path: _Path) -> None:
    """Creates one directory level without flushing its parent."""

@final
class NewFile:
    """A file that is written from its beginning: made, or emptied, when this is made. One thread owns it.

    A failed `write` or `sync` says nothing about what the file holds then: it must be thrown away.
    """

    def __new__(cls, path: _Path) -> Self: ...
    @property
    def size(self) -> int: ...
    def write(self, data: bytes) -> None:
        """Adds the bytes at the end."""

    def sync(self) -> None:
        """Makes what was written durable; its name is when the directory is. Waits for the disk without the GIL."""

    def close(self) -> None:
        """Lets go. May be called again."""

@final
class FileLock:
    """An exclusive lock on a file, created when missing, held until `release` or the end of the process."""

    def __new__(cls, path: _Path) -> Self: ...
    @property
    def acquired(self) -> bool: ...
    def release(self) -> None: ...
