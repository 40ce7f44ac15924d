"""Audit events in files: one object of JSON per line, in a file that is replaced when it is large.

    audit.jsonl        the current file
    audit.jsonl.1      the one before it; a higher number is older

A thread writes, so a slow disk delays no request. Nothing is flushed: the files survive the end of the process, but not
always that of the machine. A file that cannot be written loses events, which are counted; it is opened again later.
"""

import json
import logging
import threading
import time
from collections import deque
from pathlib import Path
from typing import Final

from kraft.runtime.audit.queue import EventQueue
from kraft.runtime.base.rotating_file import RotatingFile
from kraft.security.audit.event import Event

log = logging.getLogger(__name__)

EVENTS_AT_ONCE: Final = 256
RETRY_SECONDS: Final = 5.0
CLOSE_SECONDS: Final = 5.0


class FileWriter:
    """Thread that writes the events of a queue. Created and closed on the loop's thread."""

    def __init__(self, path: Path, bytes_max: int, files_max: int, queue: EventQueue) -> None:
        """Open the file and start the thread. Raises OSError that names the file."""
        self.queue = queue
        self.written = 0
        """Events in the files since the start."""
        self._path = path
        self._file = RotatingFile(path, bytes_max, files_max)
        self._failed: deque[int] = deque()
        """Counts of events that could not be written, from the thread."""
        self._retry_s = 0.0
        self._due = threading.Event()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
        self._thread.start()

    def put(self, event: Event) -> None:
        """Queue an event."""
        while self._failed:
            self.queue.lose(self._failed.popleft())
        self.queue.put(event)
        self._due.set()

    def close(self) -> None:
        """Write what is queued, for a bounded time, and end the thread."""
        self.queue.report_loss()
        self._is_closing = True
        self._due.set()
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        while not (self._is_closing and not len(self.queue)):
            self._due.wait()
            if not self._is_closing:
                self._due.clear()
            while events := self.queue.take(EVENTS_AT_ONCE):
                self._write(events)
        self._file.close()

    def _write(self, events: list[Event]) -> None:
        lines = b"".join(map(line_of, events))
        try:
            if not self._file.is_open:
                if time.monotonic() < self._retry_s:
                    self._failed.append(len(events))
                    return
                self._file.open()
                log.warning("audit: %s is written again", self._path)
            self._file.append(lines)
            self.written += len(events)
        except OSError:
            self._failed.append(len(events))
            self._file.close()
            self._retry_s = time.monotonic() + RETRY_SECONDS
            log.exception("audit: %s cannot be written, events are lost", self._path)


def line_of(event: Event) -> bytes:
    """Return an event as a line of its own."""
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace") + b"\n"
