"""Audit events in files: one object of JSON per line, in a file that is replaced when it is large.

    audit.jsonl        the current file
    audit.jsonl.1      the one before it; a higher number is older

Nothing is flushed: the files survive the end of the process, but not always that of the machine. A file that cannot be
written loses events, which are counted.
"""

import json
import logging
from collections import deque
from pathlib import Path

from kraft.runtime.audit.queue import EventQueue
from kraft.runtime.base.line_writer import LineWriter
from kraft.security.audit.event import Event

log = logging.getLogger(__name__)


class FileWriter:
    """Audit file, which a thread writes from a queue of events. Created and closed on the loop's thread."""

    def __init__(self, path: Path, bytes_max: int, files_max: int, queue: EventQueue) -> None:
        """Open the file and start the thread. Raises OSError that names the file."""
        self.queue = queue
        self._path = path
        self._failed: deque[int] = deque()
        """Counts of events that could not be written, from the thread."""
        self._writer = LineWriter(path, bytes_max, files_max, self, name="audit")
        self._writer.start()

    @property
    def written(self) -> int:
        """Return the events in the files since the start."""
        return self._writer.written

    def put(self, event: Event) -> None:
        """Queue an event."""
        while self._failed:
            self.queue.lose(self._failed.popleft())
        self.queue.put(event)
        self._writer.due()

    def close(self) -> None:
        """Write what is queued, for a bounded time, and end the thread."""
        self.queue.report_loss()
        self._writer.close()

    # --- `LineSource` -----------------------------------------------------------------------------------------------

    def take_lines(self, count_max: int) -> list[bytes]:
        return list(map(line_of, self.queue.take(count_max)))

    def lose(self, count: int) -> None:
        self._failed.append(count)

    def report(self, error: OSError | None) -> None:
        if error is None:
            log.warning("audit: %s is written again", self._path)
        else:
            log.error("audit: %s cannot be written, events are lost: %s", self._path, error)


def line_of(event: Event) -> bytes:
    """Return an event as a line of its own."""
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace") + b"\n"
