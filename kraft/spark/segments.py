"""Reads a range of a log from its segment files, in a task: plain reads in a window, no attaching to the log.

Attaching (`LogReader`) finds out what an owner would find, which after a crash means to check the end of the log; once
per task that would be too much. So files are read directly as long as everything is as it should be: the file is there,
batches follow each other without a gap, checksums fit. When something is not, the rest is read through a `LogReader`,
which knows what is a gap of compaction, what is a loss and what is damage, and says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from kraft.log import LogReader
from kraft.spark.options import ReadOptions
from kraft.spark.positions import resume_after_loss
from kraft.spark.splits import Range
from kraft_native.batch import first_batch, follow_batches
from kraft_native.columns import ColumnReader, Columns
from kraft_native.errors import CorruptRecordError, OffsetOutOfRangeError

WINDOW_BYTES: Final = 4 << 20
HEAD_BYTES: Final = 61
BASE_DIGITS: Final = 20
INDEX_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])


class LogFile(NamedTuple):
    """One segment's file of batches."""

    base_offset: int
    size_bytes: int
    path: Path


def log_files(directory: Path) -> list[LogFile]:
    """The segments of a log, by offset. Those that vanish meanwhile are left out."""
    found = []
    with os.scandir(directory) as entries:
        for entry in entries:
            name, dot, suffix = entry.name.partition(".")
            if suffix == "log" and dot and len(name) == BASE_DIGITS and name.isdecimal():
                try:
                    found.append(LogFile(int(name), entry.stat().st_size, Path(entry.path)))
                except FileNotFoundError:
                    continue
    return sorted(found)


class Window:
    """Memory that a task reads files through, one after the other: as large as the largest batch, and no less than
    `WINDOW_BYTES`. What is not used of it is never touched, so that a small file costs no more than its size."""

    def __init__(self) -> None:
        self._bytes = np.empty(WINDOW_BYTES, np.uint8).data

    def fill(self, descriptor: int, position: int) -> memoryview:
        """The bytes at `position`: at least the batch that begins there, as far as the file has it. They stay until the
        next call."""
        size = os.preadv(descriptor, [self._bytes], position)
        if size >= HEAD_BYTES:
            first = 12 + int.from_bytes(self._bytes[8:12], "big", signed=True)
            if size == len(self._bytes) < first:
                self._bytes = np.empty(first, np.uint8).data
                size = os.preadv(descriptor, [self._bytes], position)
        return self._bytes[:size]


def read_range(piece: Range, columns: Sequence[str], options: ReadOptions,
               window: Window | None = None) -> Iterator[Columns]:
    """The records of a range as columns of about 4 MB of log each, or of a segment each where those are smaller.

    `window` is used again for each range of a task; the columns do not refer to it.

    Raises what `LogReader` raises, such as `CorruptLogError` for damage and gaps, and `DataLossError` for what
    retention deleted, or a truncation cut off, since the range was planned, unless that is allowed.
    """
    offset = piece.start
    for found in _directly(piece, columns, window or Window()):
        offset = found.next_offset
        if len(found):
            yield found
    if offset < piece.end:
        yield from _attached(piece.part(offset, piece.end), columns, options)


def _directly(piece: Range, columns: Sequence[str], window: Window) -> Iterator[Columns]:
    """Up to the end of the range, or to where something is not as expected."""
    assert piece.directory is not None, f"{piece} is not in a log directory"
    files = log_files(Path(piece.directory))
    first = max((number for number, each in enumerate(files) if each.base_offset <= piece.start), default=len(files))
    reader = ColumnReader(columns, check_crc=False)
    offset = piece.start
    for file in files[first:]:
        if file.base_offset > offset:
            return
        for found in _file_columns(file, piece, offset, reader, window):
            offset = found.next_offset
            yield found
        if offset >= piece.end:
            return


def _file_columns(file: LogFile, piece: Range, offset: int, reader: ColumnReader,
                  window: Window) -> Iterator[Columns]:
    try:
        descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        position = _position_hint(file, descriptor, offset) if offset > file.base_offset else 0
        while offset < piece.end:
            data = window.fill(descriptor, position)
            sound, reached = follow_batches(data, offset)
            if not sound:
                return
            if reached > offset:
                found = reader.read(data[:sound], start_offset=offset, end_offset=piece.end, aborted=piece.aborted)
                if found.next_offset <= offset:
                    return  # a batch whose records are damaged: more is said about it elsewhere
                offset = min(found.next_offset, piece.end)
                sound = found.next_position
                yield found
            position += sound
    finally:
        os.close(descriptor)


def _position_hint(file: LogFile, descriptor: int, offset: int) -> int:
    """Where to look for `offset`: the index's word, when there is a sound batch at or before it; else the front."""
    try:
        index = np.fromfile(file.path.with_suffix(".index"), dtype=INDEX_ENTRY)
    except FileNotFoundError:
        return 0
    slot = int(np.searchsorted(index["offset"], offset - file.base_offset, side="right")) - 1
    if slot < 0:
        return 0
    position = int(index["position"][slot])
    head = os.pread(descriptor, WINDOW_BYTES // 4, position) if 0 < position < file.size_bytes else b""
    try:
        found = first_batch(head)
    except CorruptRecordError:
        return 0
    return position if found.base_offset <= offset else 0


def _attached(piece: Range, columns: Sequence[str], options: ReadOptions) -> Iterator[Columns]:
    """The rest of a range, with everything that the engine knows about the log."""
    assert piece.directory is not None, f"{piece} is not in a log directory"
    reader = ColumnReader(columns, check_crc=False)
    with LogReader(piece.directory, cleanup_policy=options.cleanup_policy) as log:
        offset = piece.start
        while offset < piece.end:
            try:
                chunk = log.read(offset, WINDOW_BYTES, options.isolation)
            except OffsetOutOfRangeError:
                offset = resume_after_loss(piece, offset, log.log_start_offset, options.fail_on_data_loss)
                continue
            if chunk.next_offset <= offset and not len(chunk):
                offset = resume_after_loss(piece, offset, log.log_start_offset, options.fail_on_data_loss)
                continue
            position = 0
            while position < len(chunk) and offset < piece.end:
                found = reader.read(chunk, position=position, start_offset=offset, end_offset=piece.end,
                                    aborted=piece.aborted)
                if len(found):
                    yield found
                if (found.next_position, found.next_offset) == (position, offset):
                    break
                position, offset = found.next_position, found.next_offset
            offset = max(offset, min(chunk.next_offset, piece.end))
