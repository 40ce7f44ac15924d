"""Thread that writes the lines of a source to rotating files, so that a slow disk delays no request.

A file that cannot be written loses lines, which the source counts; it is opened again later.
"""

import threading
import time
from pathlib import Path
from typing import Final, Protocol

from kraft.runtime.base.rotating_file import FOR_OPERATORS, RotatingFile

LINES_AT_ONCE: Final = 256
RETRY_SECONDS: Final = 5.0
CLOSE_SECONDS: Final = 5.0


class LineSource(Protocol):
    """Lines that wait. The thread of the writer calls all of it."""

    def take_lines(self, count_max: int) -> list[bytes]:
        """Take the oldest lines, each with its end; none when no line waits."""

    def lose(self, count: int) -> None:
        """Count lines that were taken and could not be written."""

    def report(self, error: OSError | None) -> None:
        """Report that the file cannot be written; with None that it was opened again."""


class LineWriter:
    """The thread and its files. `due` and `close` may be called by any thread."""

    def __init__(self, path: Path, bytes_max: int, files_max: int, source: LineSource, *, name: str,
                 mode: int = FOR_OPERATORS) -> None:
        """Open the file. Raises OSError that names it. `name`: that of the thread. `mode`: that of new files."""
        self.written = 0
        """Lines in the files since the start."""
        self._source = source
        self._file = RotatingFile(path, bytes_max, files_max, mode)
        self._retry_s = 0.0
        self._due = threading.Event()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread, when the source is complete."""
        self._thread.start()

    def due(self) -> None:
        """Have the thread take the lines that wait."""
        self._due.set()

    def close(self) -> None:
        """Write the lines that wait, for a bounded time, and end the thread. May be called again."""
        if not self._is_closing:
            self._is_closing = True
            self._due.set()
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        is_last = False
        while not is_last:
            self._due.wait()
            self._due.clear()
            is_last = self._is_closing
            while lines := self._source.take_lines(LINES_AT_ONCE):
                self._write(lines)
        self._file.close()

    def _write(self, lines: list[bytes]) -> None:
        before = self.written
        try:
            if not self._file.is_open:
                if time.monotonic() < self._retry_s:
                    self._source.lose(len(lines))
                    return
                self._file.open()
                self._source.report(None)
            for line in lines:
                self._file.append(line)
                self.written += 1
        except OSError as error:
            self._source.lose(len(lines) - (self.written - before))
            self._file.close()
            self._retry_s = time.monotonic() + RETRY_SECONDS
            self._source.report(error)
