"""The place of a reader that outlives its process.

    with LogReader("orders-0") as reader, Cursor("billing.cursor") as cursor:
        for record in cursor.records(reader):
            bill(record)
            cursor.commit()

A cursor is one small file, written so that a crash leaves the old place or the new one. It also notes which batch was
read last: when the log was truncated below the place and other records have taken it, reading raises
`OffsetOutOfRangeError` instead of going on in the middle of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Protocol, Self

from kraft.reading import READ_BYTES, Identity, Isolation, Place, Readable, identity_of, visible_end
from kraft_native import crc
from kraft_native.errors import (
    CorruptFileError,
    InvalidArgumentError,
    LogClosedError,
    LogLockedError,
    OffsetOutOfRangeError,
)
from kraft_native.fileio import FileLock, write_atomic
from kraft_native.records import Record
from kraft_native.records import records as records_in

VERSION: Final = 1


class Waiting(Readable, Protocol):
    """A log whose next records can be waited for: a `LogReader`."""

    def wait(self, offset: int, timeout: float | None = ..., isolation: Isolation = ...) -> bool: ...


class Cursor:
    """The stored place in one log. One process has a cursor open, others get `LogLockedError`; one thread at a time
    uses it; a context manager.

    `offset` is the next one to read. A record counts as read when the next one is requested or `commit` is called: what
    was not committed is read again by the next process (at least once). `start` is where a new cursor begins, the log's
    start unless given. Raises `CorruptFileError` when the file cannot be read, and leaves it.
    """

    def __init__(self, path: str | os.PathLike[str], *, start: int | None = None) -> None:
        if start is not None and start < 0:
            raise InvalidArgumentError(f"start: {start} is below 0")
        self.path = Path(path)
        self._lock = FileLock(f"{self.path}.lock")
        if not self._lock.acquired:
            raise LogLockedError(f"{self.path}: another process or cursor has it open")
        try:
            self.offset, self._last = self._load(start)
        except BaseException:
            self._lock.release()
            raise
        self._committed = (self.offset, self._last)
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the cursor without committing. May be called again."""
        self._closed = True
        self._lock.release()

    def records(self, log: Readable, *, isolation: Isolation = "high_watermark",
                read_bytes: int = READ_BYTES) -> Iterator[Record]:
        """The records from the place on, up to what was visible when this began. Raises what `Log.records` raises."""
        limit = visible_end(log, isolation)
        if self.offset is not None and self.offset > log.log_end_offset:
            raise OffsetOutOfRangeError(f"offset {self.offset}: the log ends at {log.log_end_offset}; it was truncated "
                                        "below the cursor's place")
        place = Place(log, self.offset, self._last)
        while place.offset < limit:
            piece = place.read(log, read_bytes, isolation)
            if piece.next_offset <= place.offset:
                return      # the limit lies inside of a batch
            for batch in place.batches(log, piece, isolation):
                for record in records_in(batch, check_crc=False):
                    if place.offset <= record.offset < limit:
                        self.offset, self._last = record.offset + 1, identity_of(batch)
                        yield record
            self.offset = max(self.offset or 0, min(place.offset, limit))

    def follow(self, reader: Waiting, *, isolation: Isolation = "high_watermark",
               timeout: float | None = None) -> Iterator[Record]:
        """As `records`, and waits at the end for more; ends when nothing came for `timeout` seconds. Raises what
        `LogReader.follow` raises."""
        while True:
            before, limit = self.offset, visible_end(reader, isolation)
            yield from self.records(reader, isolation=isolation)
            at = reader.log_start_offset if self.offset is None else self.offset
            if self.offset == before and not reader.wait(max(at, limit), timeout, isolation):
                return

    def commit(self) -> int | None:
        """Stores the place, durably, and returns it; None while nothing was read by a new cursor. `StorageError` when
        it cannot be written: then the old place is stored."""
        if self._closed:
            raise LogClosedError(f"{self.path}: the cursor is closed")
        if (self.offset, self._last) != self._committed:
            text = json.dumps({"version": VERSION, "offset": self.offset, "last": self._last})
            write_atomic(self.path, f"{text}\n{crc.checksum(text.encode()):08x}\n".encode())
            self._committed = (self.offset, self._last)
        return self.offset

    def move_to(self, offset: int) -> None:
        """Sets the place, wherever it was, and stores it."""
        if offset < 0:
            raise InvalidArgumentError(f"offset: {offset} is below 0")
        self.offset, self._last = offset, None
        self.commit()

    def _load(self, start: int | None) -> tuple[int | None, Identity | None]:
        try:
            text, checksum, rest = self.path.read_text("utf-8").split("\n")
        except FileNotFoundError:
            return start, None
        except ValueError as error:
            raise CorruptFileError(f"{self.path}: no cursor: {error}") from error
        if rest or checksum != f"{crc.checksum(text.encode()):08x}":
            raise CorruptFileError(f"{self.path}: no cursor: its checksum is not that of its content")
        found: dict[str, Any] = json.loads(text)
        if found["version"] != VERSION:
            raise CorruptFileError(f"{self.path}: a cursor of version {found['version']}, not {VERSION}")
        last = found["last"]
        return found["offset"], None if last is None else (last[0], last[1], last[2], last[3])
