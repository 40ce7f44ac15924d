"""An archive of everything that explains the state of a node, without secrets: what `kraft debug bundle` writes.

Every part is a text that passes through one `Redactor`. A part that cannot be read becomes a line of `errors.txt`, and
the others follow: a bundle is made when things are broken.
"""

import io
import json
import os
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from kraft.cli.redaction import Redactor
from kraft_native.base.errors import KraftError

MODE: Final = 0o600
LISTED_MAX: Final = 10_000
"""Entries of a directory that are listed."""


class Bundle:
    """A tar archive in the making. `top` is the directory that all its members lie in; `time_s` their time."""

    def __init__(self, path: Path, top: str, time_s: float, redactor: Redactor) -> None:
        """Create the archive, readable by its owner only. Raises `OSError`."""
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, MODE)
        os.fchmod(number, MODE)         # of a file that existed
        self._opened = ExitStack()
        file = self._opened.enter_context(os.fdopen(number, "wb"))
        self._archive = tarfile.open(fileobj=file, mode="w:gz")  # noqa: SIM115 - closed with the bundle
        self._opened.callback(self._archive.close)
        self._top = top
        self._time_s = time_s
        self.redactor = redactor
        self.failed: dict[str, str] = {}
        self.count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.failed:
            self._write("errors.txt", "".join(f"{name}: {why}\n" for name, why in self.failed.items()))
        self._opened.close()

    def add(self, name: str, read: Callable[[], object]) -> bool:
        """Add what `read` returns: a text as it is, anything else as JSON. Return whether it could be read."""
        try:
            found = read()
        except (KraftError, OSError, ValueError) as error:
            self.failed[name] = str(error)
            return False
        self._write(name, found if isinstance(found, str) else json.dumps(found, indent=1, default=str) + "\n")
        return True

    def _write(self, name: str, text: str) -> None:
        data = self.redactor.text(text).encode("utf-8", "backslashreplace")
        member = tarfile.TarInfo(f"{self._top}/{name}")
        member.size, member.mode, member.mtime = len(data), 0o600, int(self._time_s)
        self._archive.addfile(member, io.BytesIO(data))
        self.count += 1


def tail(path: Path, size_bytes: int) -> str:
    """Return the end of a file, from the beginning of a line."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - size_bytes))
        data = file.read(size_bytes)
    if size > size_bytes:
        data = data.partition(b"\n")[2]
    return data.decode("utf-8", "backslashreplace")


def listing(directory: Path) -> dict[str, Any]:
    """Return the sizes of the files in a data directory, by partition, and the room of its file system."""
    sizes: dict[str, dict[str, int]] = {}
    for count, (folder, file) in enumerate(_files(directory)):
        if count >= LISTED_MAX:
            break
        entry = sizes.setdefault(folder, {"files": 0, "bytes": 0})
        entry["files"] += 1
        entry["bytes"] += file
    system = os.statvfs(directory)
    return {
        "path": str(directory.absolute()), "total_bytes": system.f_blocks * system.f_frsize,
        "free_bytes": system.f_bavail * system.f_frsize, "inodes": system.f_files, "inodes_free": system.f_favail,
        "partitions": sizes,
    }


def _files(directory: Path) -> Iterator[tuple[str, int]]:
    """Yield the folder and the size of each file, two levels deep."""
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                with os.scandir(entry.path) as inner:
                    for each in inner:
                        yield entry.name, each.stat(follow_symlinks=False).st_size
            else:
                yield ".", entry.stat(follow_symlinks=False).st_size
