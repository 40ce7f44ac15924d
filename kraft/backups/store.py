"""Store of backups: files by name, each written whole or not at all.

    manifests/<backup>.json                                                       written last
    metadata/<sha256>.checkpoint                                                  a snapshot in Kafka's format
    segments/<topic id>/<partition>/<start>-<end>-<epoch>-<size>-<sha256>.log     whole record batches

`Directory` keeps them below a directory, `kraft.backups.bucket.Bucket` in a bucket. Several backups share files, which
never change.
"""

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Final, NamedTuple, Protocol, Self

from kraft_native.base.errors import InvalidArgumentError, LogLockedError, OperationError, StorageError
from kraft_native.file import file_io

BUCKET_SCHEME: Final = "s3://"
LOCK: Final = ".lock"
PARTS: Final = "parts"
MODE: Final = 0o700
"""Mode of the directory: metadata has the keys of SCRAM credentials and of delegation tokens."""
FILE_MODE: Final = 0o600
"""Mode of its files: the directory may have existed with another mode."""


class Stored(NamedTuple):
    """Name of a stored file, with slashes, and its size."""

    name: str
    size_bytes: int


class Writing(Protocol):
    """A file that is being written. It exists in the store after `finish`."""

    def write(self, data: bytes | memoryview) -> None:
        """Append the data."""

    def finish(self, name: str) -> None:
        """Make the file durable under its name, in place of one that has it."""

    def abandon(self) -> None:
        """Drop what was written. Does nothing after `finish`."""


class Store(Protocol):
    """Files by name. Any thread may use it."""

    @property
    def place(self) -> str:
        """Name of the store, for messages."""

    def files(self, prefix: str) -> list[Stored]:
        """Return the files whose names begin with `prefix`, which ends with a slash, sorted by name."""

    def reader(self, name: str) -> IO[bytes]:
        """Open a file for reading. Raises `FileNotFoundError`."""

    def reading(self, name: str) -> AbstractContextManager[None]:
        """Report a failure while an open file is read as an error of the store."""

    def begin(self) -> Writing:
        """Begin a new file."""

    def prepare(self) -> None:
        """Make the store ready for a backup: create it when it is missing."""

    def release(self) -> None:
        """End what `prepare` began."""


def read(store: Store, name: str) -> bytes:
    """Return the content of a file. Raises `FileNotFoundError`, and what the store raises where it cannot be read."""
    with store.reader(name) as file, store.reading(name):
        return file.read()


def write(store: Store, name: str, data: bytes) -> None:
    """Write a file, whole and durable."""
    file = store.begin()
    try:
        file.write(data)
        file.finish(name)
    finally:
        file.abandon()


@contextmanager
def prepared(store: Store) -> Iterator[Store]:
    """Prepare a store, and release it at the end."""
    store.prepare()
    try:
        yield store
    finally:
        store.release()


def store_at(place: str) -> Store:
    """Return the store at `place`: a directory, or `s3://bucket/prefix`. Raises `InvalidArgumentError` for a place that
    cannot be one, and `ModuleNotFoundError` when the extra `backup` is not installed."""
    if not place.startswith(BUCKET_SCHEME):
        return Directory(Path(place))
    bucket, _, prefix = place.removeprefix(BUCKET_SCHEME).partition("/")
    if not bucket:
        raise InvalidArgumentError(f"place: {place!r} is not a directory or s3://bucket/prefix")
    from kraft.backups.bucket import Bucket  # its library is an extra

    return Bucket(bucket, prefix)


class PartFile:
    """File of a directory that has a temporary name until it is whole."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._part = root / PARTS / uuid.uuid4().hex
        with failures_of(self._part):
            self._file: IO[bytes] | None = open(self._part, "xb", buffering=0, opener=_private)  # noqa: SIM115

    def write(self, data: bytes | memoryview) -> None:
        assert self._file is not None
        left = memoryview(data)
        with failures_of(self._part):
            while left:
                left = left[self._file.write(left):]

    def finish(self, name: str) -> None:
        assert self._file is not None
        with failures_of(self._part):
            os.fsync(self._file.fileno())
            self._file.close()
        self._file = None
        target = self._root / name
        make_directories(target.parent)
        file_io.rename(self._part, target)
        file_io.sync_directory(target.parent)

    def abandon(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            file_io.unlink(self._part, missing_ok=True)


class Directory:
    """Store below a directory. One backup is created in it at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: file_io.FileLock | None = None

    @property
    def place(self) -> str:
        return str(self.path)

    def files(self, prefix: str) -> list[Stored]:
        found = []
        for directory, _, names in os.walk(self.path / prefix):
            above = Path(directory).relative_to(self.path)
            found += [Stored(str(above / name), (Path(directory) / name).stat().st_size) for name in names]
        return sorted(found)

    def reader(self, name: str) -> IO[bytes]:
        path = self.path / name
        try:
            return path.open("rb", buffering=0)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StorageError(str(path), error.errno or errno.EIO) from error

    def reading(self, name: str) -> AbstractContextManager[None]:
        return failures_of(self.path / name)

    def begin(self) -> PartFile:
        return PartFile(self.path)

    def prepare(self) -> None:
        """Raises `LogLockedError` while another backup is created here, `OperationError` for a directory that holds
        something else."""
        if self.path.is_dir() and not (self.path / LOCK).exists() and any(self.path.iterdir()):
            raise OperationError(f"{self.path}: the directory is not empty and holds no backups")
        if not self.path.is_dir():
            make_directories(self.path)
            self.path.chmod(MODE)
        lock = file_io.FileLock(self.path / LOCK)
        if not lock.acquired:
            raise LogLockedError(f"{self.path}: another backup is being created here")
        self._lock = lock
        make_directories(self.path / PARTS)
        for part in (self.path / PARTS).iterdir():
            part.unlink()              # of a backup that was interrupted

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        self.prepare()
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, FILE_MODE)


@contextmanager
def failures_of(path: Path) -> Iterator[None]:
    """Report a failing call of the system as `StorageError`."""
    try:
        yield
    except OSError as error:
        raise StorageError(str(path), error.errno or errno.EIO) from error


def make_directories(path: Path) -> None:
    """Create a directory and its missing parents, durably. Another thread may create them at the same time."""
    if path.is_dir():
        return
    make_directories(path.parent)
    try:
        file_io.make_directory(path)
    except StorageError:
        if not path.is_dir():
            raise
    file_io.sync_directory(path.parent)
