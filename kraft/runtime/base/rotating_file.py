"""Lines in a file that is replaced when it is large. Nothing is flushed: the files survive the end of the process, but
not always that of the machine.

    node.log        the current file
    node.log.1      the one before it; a higher number is older
"""

import os
from itertools import pairwise
from pathlib import Path
from typing import Final

FOR_OPERATORS: Final = 0o600
"""Mode of files that name addresses and users."""
NOT_OPEN: Final = -1


class RotatingFile:
    """The files. One thread."""

    def __init__(self, path: Path, bytes_max: int, files_max: int, mode: int = FOR_OPERATORS) -> None:
        """Open the current file. Raises OSError that names it. `mode`: that of new files."""
        self._path = path
        self._mode = mode
        self._bytes_max = bytes_max
        self._files_max = files_max
        self._descriptor = NOT_OPEN
        self._bytes = 0
        self.open()

    def open(self) -> None:
        """Open the current file again. A last line that was cut gets its end."""
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, self._mode)
        self._bytes = os.fstat(self._descriptor).st_size
        if self._bytes and os.pread(self._descriptor, 1, self._bytes - 1) != b"\n":
            self._write(b"\n")

    @property
    def is_open(self) -> bool:
        return self._descriptor != NOT_OPEN

    def append(self, lines: bytes) -> None:
        """Append whole lines. The file is replaced before them when it would exceed its size. Raises OSError."""
        if self._bytes and self._bytes + len(lines) > self._bytes_max:
            self.close()
            self._rotate()
            self.open()
        self._write(lines)

    def close(self) -> None:
        """Close the file. May be called again."""
        if self.is_open:
            os.close(self._descriptor)
            self._descriptor = NOT_OPEN

    def _write(self, data: bytes) -> None:
        written = os.write(self._descriptor, data)
        self._bytes += written
        if written < len(data):
            raise OSError(0, f"{written} of {len(data)} bytes were written", str(self._path))

    def _rotate(self) -> None:
        numbered = [self._path, *(self._path.with_name(f"{self._path.name}.{number}")
                                  for number in range(1, self._files_max))]
        for newer, older in reversed(list(pairwise(numbered))):
            if newer.exists():
                newer.replace(older)
        if self._files_max == 1:
            self._path.unlink()
