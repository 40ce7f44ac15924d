"""Reading: batches with and without their checksum, records as Arrow columns."""

from __future__ import annotations

import functools
import mmap
import shutil
from collections import deque
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

from bench.payload import batch_of
from bench.table import Bench, Row, absolute, paired, seconds
from kraft import LogConfig
from kraft_native.base import crc
from kraft_native.batch.batch import count_batches
from kraft_native.columns.reader import ColumnReader
from kraft_native.facade.log import Log
from kraft_native.file.buffer import Slice

GB = 1e9
READ_BYTES = 1 << 20


def rows(bench: Bench) -> Iterator[Row]:
    if not bench.wants("read") and not bench.wants("walk") and not bench.wants("Arrow"):
        return
    batch = batch_of(16 << 10)
    size = bench.count(1 << 30)
    path = bench.fresh("log")
    with Log(path, LogConfig(segment_bytes=256 << 20)) as log:
        deque(map(log.append, repeat(batch, size // len(batch))), maxlen=0)
    if bench.wants("read"):
        yield checked_read(bench, path)
    with Log(path) as log:
        if bench.wants("walk"):
            yield walk_again(bench, log)
        if bench.wants("Arrow"):
            yield arrow(bench, log)
    shutil.rmtree(path)


def read_all(log: Log) -> int:
    offset, end, total = log.log_start_offset, log.log_end_offset, 0
    while offset < end:
        piece = log.read(offset, READ_BYTES)
        total += len(piece)
        offset = piece.next_offset
    return total


def checked_read(bench: Bench, path: Path) -> Row:
    """Measure the first read after an open, from page cache: structure and checksum of every batch are checked."""
    files = sorted(path.glob("*.log"))

    def ours() -> float:
        with Log(path) as log:
            total = 0

            def run() -> None:
                nonlocal total
                total = read_all(log)

            taken = seconds(run)
            return total / taken / GB

    def kernel() -> float:
        taken = total = 0.0
        for file in files:
            with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as mapped:
                taken += seconds(functools.partial(crc.checksum, mapped))
                total += len(mapped)
        return total / taken / GB

    return paired("read batches for the first time, with checksums", "GB/s", ours, kernel,
                  limit_name="CRC kernel over the same mapped files", target=0.7, repeats=bench.turns)


def walk_again(bench: Bench, log: Log) -> Row:
    """Measure a later read: headers are walked in the mapped file, nothing is copied or checked again."""
    pieces = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, 16 << 20)
        pieces.append(piece)
        offset = piece.next_offset
    total = sum(map(len, pieces))
    return absolute("walk batches read before, without checksums", "GB/s",
                    lambda: total / seconds(lambda: deque(map(count_batches, pieces), maxlen=0)) / GB, target=20.0,
                    repeats=bench.turns)


def arrow(bench: Bench, log: Log) -> Row:
    """Measure all columns of 100-byte values, 4 MiB of batches per record batch, each released before the next."""
    reader = ColumnReader(check_crc=False)
    pieces: list[Slice] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset and len(pieces) < 64:
        piece = log.read(offset, 4 << 20)
        pieces.append(piece)
        offset = piece.next_offset
    count = sum(len(reader.read(piece)) for piece in pieces)

    def ours() -> float:
        def run() -> None:
            for piece in pieces:
                reader.read(piece)

        return count / seconds(run) / 1e6

    return absolute("records to Arrow, all columns, 100 B values, one core", "M/s", ours, target=10.0,
                    repeats=bench.turns)
