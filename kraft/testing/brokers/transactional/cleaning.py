"""Model of a cleaner that replaces segments while a coordinator loads them.

The load reads a part of the log as it was, and another part as the cleaner leaves it. The compaction itself is the
compiled one, on a copy of the log.
"""

from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from random import Random
from shutil import copytree, rmtree

from kraft.testing.brokers.log_view import WALL_MS
from kraft_native.facade.log import Log
from kraft_native.file.buffer import Slice
from kraft_native.partition.partition import Partition
from kraft_native.segment.config import LogConfig

DAY_MS = 24 * 3_600_000


class Cleaned:
    """Batches of the compacted copy of a log. Its tombstones remain unless `drops_tombstones`."""

    def __init__(self, source: Path, target: Path, *, drops_tombstones: bool) -> None:
        self.ends: list[int] = []
        self.batches: list[bytes] = []
        copytree(source, target)
        config = LogConfig(cleanup_policy="compact", high_watermark="auto",
                           delete_retention_ms=0 if drops_tombstones else DAY_MS)
        try:
            with Log(target, config) as copy:
                copy.roll()
                copy.compact(WALL_MS, force=True)
                self._read(copy)
        finally:
            rmtree(target)

    def _read(self, copy: Log) -> None:
        offset = copy.log_start_offset
        while offset < copy.log_end_offset:
            piece = copy.read(offset, 1, "log_end")
            if piece.next_offset <= offset:
                return
            offset = piece.next_offset
            self.ends.append(offset)
            self.batches.append(bytes(piece))


class CleanedLog:
    """Log of a partition as a load sees it. `clean_from` and `clean_to` bound the offsets that are read as the cleaner
    left them."""

    def __init__(self, log: Log, cleaned: Cleaned, clean_from: int, clean_to: int) -> None:
        self._log = log
        self._cleaned = cleaned
        self._clean_from = clean_from
        self._clean_to = clean_to

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    def read(self, offset: int, bytes_max: int, isolation: str) -> Slice | bytes:
        """See `Log.read`."""
        if self._clean_from <= offset < self._clean_to:
            place = bisect_right(self._cleaned.ends, offset)
            if place < len(self._cleaned.ends):
                return self._cleaned.batches[place]
        assert isolation == "log_end"
        return self._log.read(offset, bytes_max, "log_end")


class CleanedPartition:
    """Partition whose log is loaded while the cleaner works."""

    def __init__(self, partition: Partition, log: CleanedLog) -> None:
        self._partition = partition
        self.log = log

    @property
    def index(self) -> int:
        return self._partition.index

    @property
    def leader_epoch(self) -> int:
        return self._partition.leader_epoch

    @property
    def high_watermark(self) -> int:
        return self._partition.high_watermark


def cleaned(partition: Partition, source: Path, target: Path, random: Random,
            count: Callable[[str], None]) -> CleanedPartition:
    """Return the partition as a load sees it that meets the cleaner: behind it, before it, or when it is done. Only
    then tombstones may be missing: they stay for as long as a load may last."""
    log = partition.log
    end = log.log_end_offset
    middle = random.randrange(log.log_start_offset, end + 1)
    clean_from, clean_to = random.choice(((0, end), (0, middle), (middle, end)))
    drops_tombstones = (clean_from, clean_to) == (0, end) and random.random() < 0.5
    count("load meets the cleaner")
    return CleanedPartition(partition, CleanedLog(
        log, Cleaned(source, target, drops_tombstones=drops_tombstones), clean_from, clean_to))
