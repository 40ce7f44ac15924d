"""The flight recorder's entries in the directory of the metadata log, to be read after a node was killed.

    flight-recorder.jsonl        one entry a line; continues over restarts
    flight-recorder.1.jsonl      its content before it became too long

Each file begins with a `state` entry, so that it is useful without the other. Nothing is flushed: the files survive the
end of the process, but not always that of the machine. They are for people: no decision ever depends on them. When they
cannot be written, the node continues without them.
"""

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from kraft.recorder.entry import Entry, parse
from kraft_native.base.errors import MalformedMessageError

log = logging.getLogger(__name__)

NAME: Final = "flight-recorder.jsonl"
OLD_NAME: Final = "flight-recorder.1.jsonl"
BYTES_MAX: Final = 1 << 20


class RecorderFile:
    """The open file. Written on the loop's thread: a short write into the page cache for rare events."""

    def __init__(self, directory: Path, *, bytes_max: int = BYTES_MAX) -> None:
        self._path = directory / NAME
        self._old_path = directory / OLD_NAME
        self._bytes_max = bytes_max
        self._descriptor = -1
        self._bytes = 0
        self.state: Callable[[], Entry] | None = None
        """Returns the entry with which a new file begins."""
        self._attempt(self._open)

    @property
    def is_open(self) -> bool:
        return self._descriptor >= 0

    def write(self, entry: Entry) -> None:
        """Append an entry. After an error, which is logged once, nothing more is written."""
        if self.is_open:
            self._attempt(lambda: self._append(entry))

    def close(self) -> None:
        """Close the file. May be called again."""
        if self.is_open:
            os.close(self._descriptor)
            self._descriptor = -1

    def _attempt(self, work: Callable[[], None]) -> None:
        try:
            work()
        except OSError as error:
            log.warning("%s cannot be written, and is not any more: %s", self._path, error)
            self.close()

    def _open(self) -> None:
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._bytes = os.fstat(self._descriptor).st_size

    def _append(self, entry: Entry) -> None:
        if self._bytes >= self._bytes_max:
            self.close()
            os.replace(self._path, self._old_path)
            self._open()
            if self.state is not None:
                self._put(self.state())
        self._put(entry)

    def _put(self, entry: Entry) -> None:
        self._bytes += os.write(self._descriptor, entry.line.encode() + b"\n")


def read_entries(directory: Path) -> Iterator[Entry]:
    """Entries of the files in a metadata log's directory, oldest first. An unreadable line is skipped: the end of a
    machine cut it, or it runs into the next."""
    for name in (OLD_NAME, NAME):
        path = directory / name
        if path.exists():
            for line in path.read_bytes().splitlines():
                try:
                    yield parse(line)
                except MalformedMessageError:
                    continue
