"""Durable position of a reader, which outlives its process.

    with LogReader("orders-0") as reader, Cursor("billing.cursor") as cursor:
        for record in cursor.records(reader):
            bill(record)
            cursor.commit()

A cursor is one small file; a crash leaves either the old position or the new one. It also records which batch was read
last. When the log was truncated below the position and other records occupy it, reading raises `OffsetOutOfRangeError`
instead of continuing among them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Protocol, Self

from kraft.reading import READ_BYTES, Identity, Isolation, Place, Readable, identity_of, visible_end
from kraft_native.base import crc
from kraft_native.base.errors import (
    CorruptFileError,
    InvalidArgumentError,
    LogClosedError,
    LogLockedError,
    OffsetOutOfRangeError,
)
from kraft_native.batch.records import Record
from kraft_native.batch.records import records as records_in
from kraft_native.file.file_io import FileLock, write_atomic

VERSION: Final = 1


class Waiting(Readable, Protocol):
    """A log that can wait for its next records: a `LogReader`."""

    def wait(self, offset: int, timeout: float | None = ..., isolation: Isolation = ...) -> bool: ...


class Cursor:
    """Stored position in one log; a context manager. One process at a time has a cursor open, others get
    `LogLockedError`. One thread at a time uses it.

    `offset` is the next offset to read. A record counts as read when the next one is requested or `commit` is called.
    The next process reads again what was not committed (at least once). `start` is where a new cursor begins, by
    default the log start. Raises `CorruptFileError` when the file cannot be read, and leaves the file unchanged.
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
        """Release the cursor without committing. May be called again."""
        self._closed = True
        self._lock.release()

    def records(self, log: Readable, *, isolation: Isolation = "high_watermark",
                read_bytes: int = READ_BYTES) -> Iterator[Record]:
        """Yield the records from the position to the end that is visible at the start of the call. Raises what
        `Log.records` raises."""
        limit = visible_end(log, isolation)
        if self.offset is not None and self.offset > log.log_end_offset:
            raise OffsetOutOfRangeError(f"offset {self.offset}: the log ends at {log.log_end_offset}; it was truncated "
                                        "below the cursor's place")
        place = Place(log, self.offset, self._last)
        while place.offset < limit:
            piece = place.read(log, read_bytes, isolation)
            if piece.next_offset <= place.offset:
                return      # the limit lies inside a batch
            for batch in place.batches(log, piece, isolation):
                for record in records_in(batch, check_crc=False):
                    if place.offset <= record.offset < limit:
                        self.offset, self._last = record.offset + 1, identity_of(batch)
                        yield record
            self.offset = max(self.offset or 0, min(place.offset, limit))

    def follow(self, reader: Waiting, *, isolation: Isolation = "high_watermark",
               timeout: float | None = None) -> Iterator[Record]:
        """Yield records as `records` does and wait for more at the end. Ends when none arrived for `timeout` seconds.
        Raises what `LogReader.follow` raises."""
        while True:
            before, limit = self.offset, visible_end(reader, isolation)
            yield from self.records(reader, isolation=isolation)
            at = reader.log_start_offset if self.offset is None else self.offset
            if self.offset == before and not reader.wait(max(at, limit), timeout, isolation):
                return

    def commit(self) -> int | None:
        """Store the position durably and return it. None means that a new cursor has not read anything. Raises
        `StorageError` when the position cannot be written; then the old one stays stored."""
        if self._closed:
            raise LogClosedError(f"{self.path}: the cursor is closed")
        if (self.offset, self._last) != self._committed:
            text = json.dumps({"version": VERSION, "offset": self.offset, "last": self._last})
            write_atomic(self.path, f"{text}\n{crc.checksum(text.encode()):08x}\n".encode())
            self._committed = (self.offset, self._last)
        return self.offset

    def move_to(self, offset: int) -> None:
        """Set the position to any offset and store it."""
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
