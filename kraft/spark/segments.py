"""Read a range of a log from its segment files, in a task: plain reads in a window, without attaching to the log.

Attaching (`LogReader`) finds out what an owner would find. After a crash it must check the end of the log, which is too
much work for each task. So files are read directly while all is as expected: the file exists, batches follow each other
without a gap, checksums match. Otherwise the rest is read through a `LogReader`. It distinguishes gaps of compaction
from loss and damage, and reports them.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from kraft.log import LogReader
from kraft.spark.options import ReadOptions
from kraft.spark.positions import resume_after_loss
from kraft.spark.splits import Range
from kraft_native.base.errors import CorruptRecordError, OffsetOutOfRangeError
from kraft_native.batch.batch import first_batch, follow_batches
from kraft_native.columns.reader import ColumnReader, Columns

WINDOW_BYTES: Final = 4 << 20
BASE_DIGITS: Final = 20
INDEX_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])


class LogFile(NamedTuple):
    """One segment's file of batches."""

    base_offset: int
    size_bytes: int
    path: Path


def log_files(directory: Path) -> list[LogFile]:
    """Return the segments of a log, by offset. Files that vanish meanwhile are left out."""
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
    """Memory through which a task reads files. It is as large as the largest batch, and at least `WINDOW_BYTES`. Unused
    parts are never touched, so a small file costs no more than its size."""

    def __init__(self) -> None:
        self.bytes = np.empty(WINDOW_BYTES, np.uint8).data

    def grow(self, size: int) -> None:
        """Resize the memory. Its content is lost."""
        self.bytes = np.empty(size, np.uint8).data


class FileSequence:
    """Segment files as one sequence of bytes, read through a window from a position in the first of them on.

    A window holds as many files as fit: columns are created from many batches at a time, however small the files are.
    Close it at the end.
    """

    def __init__(self, files: Sequence[LogFile], window: Window) -> None:
        self._files = files
        self._window = window
        self._at = self._position = 0
        self._parts: list[tuple[int, int, int]] = []
        """Content of the window: for each part the number of its file, its position in the file and its size."""
        self._open = self._descriptor = -1

    def read(self) -> memoryview:
        """Return the bytes that follow the position: at least the batch there, as far as its file has it. They are
        valid until the next call. Files that vanished are empty."""
        self._parts.clear()
        filled, number, position = 0, self._at, self._position
        while number < len(self._files) and filled < len(self._window.bytes):
            if (descriptor := self._opened(number)) >= 0:
                size = os.preadv(descriptor, [self._window.bytes[filled:]], position)
                if size == len(self._window.bytes) < (first := _batch_bytes(self._window.bytes)):
                    self._window.grow(first)
                    continue
                self._parts.append((number, position, size))
                filled += size
            number, position = number + 1, 0
        return self._window.bytes[:filled]

    def advance(self, size: int) -> None:
        """Advance the position by `size` bytes of the window."""
        for number, position, part in self._parts:
            self._at, self._position = number, position + min(size, part)
            if size < part:
                break
            size -= part

    def next_file(self) -> LogFile | None:
        """Move the position to the front of the next file; return None when none is left."""
        self._at, self._position = self._at + 1, 0
        return self._files[self._at] if self._at < len(self._files) else None

    def find(self, offset: int) -> None:
        """Move the position to the batch with `offset`, or before it, by the first file's index."""
        if offset > self._files[0].base_offset and (descriptor := self._opened(0)) >= 0:
            self._position = _position_hint(self._files[0], descriptor, offset)

    def close(self) -> None:
        """Close the file that is open."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._open = self._descriptor = -1

    def _opened(self, number: int) -> int:
        """Return a descriptor of that file, the only one that is open; -1 when the file vanished."""
        if self._open != number:
            self.close()
            try:
                self._descriptor = os.open(self._files[number].path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return -1
            self._open = number
        return self._descriptor


def _batch_bytes(head: memoryview) -> int:
    """Return the size of the batch that begins there, from its length field."""
    return 12 + int.from_bytes(head[8:12], "big", signed=True)


def read_range(piece: Range, columns: Sequence[str], options: ReadOptions,
               window: Window | None = None) -> Iterator[Columns]:
    """Yield the records of a range as columns of about 4 MB of log each.

    `window` is reused for each range of a task; the columns do not refer to it.

    Raise the errors of `LogReader`, such as `CorruptLogError` for damage and gaps. Raise `DataLossError` for offsets
    that retention deleted, or a truncation removed, since the range was planned, unless that is allowed.
    """
    offset = piece.start
    for found in _directly(piece, columns, window or Window()):
        offset = found.next_offset
        if len(found):
            yield found
    if offset < piece.end:
        yield from _attached(piece.part(offset, piece.end), columns, options)


def _directly(piece: Range, columns: Sequence[str], window: Window) -> Iterator[Columns]:
    """Read up to the end of the range, or up to something unexpected."""
    assert piece.directory is not None, f"{piece} is not in a log directory"
    files = log_files(Path(piece.directory))
    first = bisect_right(files, piece.start, key=_base_offset) - 1
    if first < 0:
        return
    reader = ColumnReader(columns, check_crc=False)
    offset = piece.start
    with closing(FileSequence([each for each in files[first:] if each.base_offset < piece.end], window)) as source:
        source.find(offset)
        while offset < piece.end:
            data = source.read()
            sound, reached = follow_batches(data, offset)
            if not sound:
                file = source.next_file()
                if file is None or file.base_offset > offset:
                    return
                continue
            if reached > offset:
                found = reader.read(data[:sound], start_offset=offset, end_offset=piece.end, aborted=piece.aborted)
                if found.next_offset <= offset:
                    return  # a batch whose records are damaged; the attached reader reports the details
                offset = min(found.next_offset, piece.end)
                sound = found.next_position
                yield found
            source.advance(sound)


def _base_offset(file: LogFile) -> int:
    return file.base_offset


def _position_hint(file: LogFile, descriptor: int, offset: int) -> int:
    """Return the position at which the search for `offset` starts. It is the position in the index, if that has a sound
    batch at or before `offset`, else the front."""
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
    """Read the rest of a range, with everything that the engine knows about the log."""
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
