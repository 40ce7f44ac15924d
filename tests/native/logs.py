"""Helpers of the tests of logs: batches built by hand, and reading a log to its end."""

import os
import tempfile
from pathlib import Path

from kraft_native.base.errors import CorruptLogError
from kraft_native.batch.batch import walk
from kraft_native.batch.records import BatchBuilder
from kraft_native.facade.log import Log
from kraft_native.segment.config import LogConfig

START_MS = 1_700_000_000_000
MEMORY = Path("/dev/shm")


def flushed_directory() -> Path:
    """Create a directory for a log that is flushed thousands of times, in memory where the machine has such a place.
    On a disk that other processes write to, each flush may take a twentieth of a second."""
    return Path(tempfile.mkdtemp(prefix="kraft-log-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))


def batch(count: int = 1, *, value: bytes = b"value", timestamp_ms: int = START_MS, base_offset: int = 0,
          leader_epoch: int = -1, codec: str = "none", producer_id: int = -1, producer_epoch: int = -1,
          base_sequence: int = -1, transactional: bool = False, step_ms: int = 1) -> bytes:
    builder = BatchBuilder(codec, transactional=transactional)
    for index in range(count):
        builder.append(value, b"key", timestamp_ms + index * step_ms)
    return builder.build(base_offset, leader_epoch=leader_epoch, producer_id=producer_id,
                         producer_epoch=producer_epoch, base_sequence=base_sequence)


def read_all(log: Log, offset: int | None = None, isolation: str = "log_end", max_bytes: int = 1 << 20) -> bytes:
    """Return all batches from `offset` (the log start) to the limit, joined."""
    parts = []
    offset = log.log_start_offset if offset is None else offset
    while True:
        piece = log.read(offset, max_bytes, isolation)
        if len(piece) == 0:
            return b"".join(parts)
        parts.append(bytes(piece))
        offset = piece.next_offset


def readable(log: Log) -> tuple[list[tuple[int, int]], list[CorruptLogError]]:
    """Return (base, last) of every batch that can be read, and every damage found on the way."""
    found: list[tuple[int, int]] = []
    damage = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        try:
            piece = log.read(offset, isolation="log_end")
        except CorruptLogError as error:
            damage.append(error)
            if error.next_offset < 0:
                break
            offset = error.next_offset
            continue
        if len(piece) == 0:
            break
        found += [(seen.base_offset, seen.last_offset) for seen in walk(piece)]
        offset = piece.next_offset
    return found, damage


def files(directory: Path | str, *suffixes: str) -> dict[str, bytes]:
    """Return the content of the log's files by name, without the files that only mark an open log."""
    return {name: (Path(directory) / name).read_bytes() for name in sorted(os.listdir(directory))
            if name not in (".lock", "kraft.live") and (not suffixes or name.endswith(suffixes))}


def small(**settings) -> LogConfig:
    """Return settings under which a few batches fill segments and indexes."""
    return LogConfig(**{"segment_bytes": 2048, "index_interval_bytes": 200} | settings)
