"""Topics read from the files of their logs: directories of this engine or of Kafka, in use or at rest, on any machine
that sees them. The broker may be down; nothing is written.

The visible end of a log depends on its owner:

- A log whose owner is this engine, and lives, is visible as far as that owner shows it.
- Any other log is visible to the high watermark in the directory's checkpoint file. A broker (a running Kafka too)
  knows that the records up to there are on all replicas.
- A log without such a file is read to its end.

Of several replicas of a partition, the one with the highest end is read.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from kraft.log import LogReader
from kraft.log_dir import METADATA_TOPIC, TopicPartition, noted_high_watermark, partitions_in
from kraft.spark.options import ReadOptions, Subscription
from kraft.spark.positions import check_missing
from kraft.spark.segments import Window, log_files, read_range
from kraft.spark.splits import Range
from kraft_native.base.errors import InvalidArgumentError
from kraft_native.columns.reader import Columns
from kraft_native.segment import checkpoints

CHECK_THREADS_MAX: Final = 4
# Total for logs that were not closed. A log whose two largest segments exceed it is examined alone.
EXAMINED_BYTES_MAX: Final = 256 << 20


@dataclass(frozen=True, slots=True)
class Replica:
    """One log of a partition, and its visible range. `aborted`: transactions that read_committed skips, as in
    `Range`."""

    directory: Path
    start: int
    end: int
    aborted: tuple[tuple[int, int, int], ...] = ()


class Directories:
    """Log directories (`log.dirs`), or directories of single logs. Used by one thread at a time."""

    def __init__(self, options: ReadOptions) -> None:
        self.isolation = options.isolation
        self._options = options
        self._shared = checkpoints.SharedOffsets()
        self._memory = MemoryLimit(EXAMINED_BYTES_MAX)
        self._at_rest: dict[Path, tuple[object, Replica]] = {}
        """Logs without an owner, each with the facts that a new owner would change. They are examined once per
        query."""

    @cached_property
    def _replicas(self) -> dict[TopicPartition, Replica]:
        """Logs to read, found only when a query is planned. They are examined in parallel, within the memory limit: for
        a log that was not closed, the end is read and checked without the interpreter lock."""
        logs = sorted(_logs(self._options).items())
        directories = [directory for _, found in logs for directory in found]
        with ThreadPoolExecutor(min(len(os.sched_getaffinity(0)), CHECK_THREADS_MAX)) as pool:
            found = dict(zip(directories, pool.map(self._look, directories), strict=True))
        return {each: max((found[directory] for directory in replicas), key=lambda replica: replica.end)
                for each, replicas in logs}

    def partitions(self) -> list[TopicPartition]:
        return list(self._replicas)

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {each: self._replicas[each].start for each in partitions}

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {each: self._replicas[each].end for each in partitions}

    def at_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        found: dict[TopicPartition, int | None] = {}
        for each, time_ms in times_ms.items():
            replica = self._replicas[each]
            with self._reader(replica.directory) as reader:
                answer = reader.offset_for_time(time_ms, self.isolation)
            found[each] = answer[0] if answer is not None and answer[0] < replica.end else None
        return found

    def topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[str, str]:
        ids = {}
        for each in partitions:
            if (found := checkpoints.read_partition_metadata(self._replicas[each].directory)) is not None:
                ids[each.topic] = str(found)
        return ids

    def ranges(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> list[Range]:
        pieces: list[Range] = []
        for each, (start, end) in spans.items():
            if start < end:
                pieces += self._pieces(each, start, end)
        return pieces

    def _pieces(self, partition: TopicPartition, start: int, end: int) -> Iterator[Range]:
        """Yield a piece per segment, because the number of bytes per offset differs between segments."""
        directory = self._replicas[partition].directory
        files = log_files(directory)
        bounds = [*(each.base_offset for each in files[1:]), max(end, files[-1].base_offset) if files else end]
        for file, next_base in zip(files, bounds, strict=True):
            first, after = max(file.base_offset, start), min(next_base, end)
            if first < after:
                share = (after - first) / (next_base - file.base_offset)
                aborted = tuple(each for each in self._replicas[partition].aborted
                                if each[1] < after and each[2] >= first)
                yield Range(partition.topic, partition.partition, first, after, int(file.size_bytes * share),
                            os.fspath(directory), aborted)

    def read(self, piece: Range, columns: Sequence[str]) -> Iterator[Columns]:
        return read_range(piece, columns, self._options, self._window)

    @cached_property
    def _window(self) -> Window:
        return Window()

    def refresh(self) -> None:
        self.__dict__.pop("_replicas", None)
        self._shared = checkpoints.SharedOffsets()

    def close(self) -> None:
        """Do nothing: no file is kept open."""

    def _look(self, directory: Path) -> Replica:
        facts = _facts(directory), noted_high_watermark(directory, self._shared)
        known = self._at_rest.get(directory)
        if known is not None and known[0] == facts:
            return known[1]
        sizes = sorted(size for name, size, *_ in facts[0] if name.endswith(".log"))
        # The reader loads a segment and the next one into memory.
        with self._memory.held(sum(sizes[-2:])), self._reader(directory) as reader:
            committed = self.isolation == "read_committed"
            end = reader.last_stable_offset if committed else reader.high_watermark
            if not reader.owner_alive and (noted := facts[1]) is not None:
                end = min(end, noted)
            start = reader.log_start_offset
            end = max(end, start)
            aborted = reader.aborted_transactions(start, end) if committed else ()
            found = Replica(directory, start, end, tuple(each[:3] for each in aborted))
            if not reader.owner_alive:
                self._at_rest[directory] = facts, found
        return found

    def _reader(self, directory: Path) -> LogReader:
        return LogReader(directory, cleanup_policy=self._options.cleanup_policy, shared=self._shared)


class MemoryLimit:
    """Limit of the bytes that threads hold together. A thread that wants more than the limit waits until no other holds
    any."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes_held = 0
        self._changed = threading.Condition()

    @contextmanager
    def held(self, size: int) -> Iterator[None]:
        """Wait until `size` bytes are free, and hold them inside the block."""
        size = min(size, self.bytes_max)
        with self._changed:
            self._changed.wait_for(lambda: self.bytes_held + size <= self.bytes_max)
            self.bytes_held += size
        try:
            yield
        finally:
            with self._changed:
                self.bytes_held -= size
                self._changed.notify_all()


Fact = tuple[str, int, int, int]


def _facts(directory: Path) -> list[Fact]:
    """Return facts that change when a process writes to the log, or becomes its owner."""
    with os.scandir(directory) as entries:
        return sorted((entry.name, status.st_size, status.st_mtime_ns, status.st_ino) for entry in entries
                      if entry.is_file() for status in [entry.stat()])


def _logs(options: ReadOptions) -> dict[TopicPartition, list[Path]]:
    """Return the log directories of the subscribed partitions: for each partition one per replica."""
    subscription = options.subscription
    logs: dict[TopicPartition, list[Path]] = {}
    for text in options.paths:
        path = Path(text.removeprefix("file://"))
        if not path.is_dir():
            raise InvalidArgumentError(f"option path: {text} is not a directory")
        for name, directory in _logs_in(path):
            if name.topic != METADATA_TOPIC and subscription.wants(name.topic) and (
                    subscription.kind != "assign" or name in subscription.partitions):
                logs.setdefault(name, []).append(directory)
    _check_found(subscription, logs, ", ".join(options.paths), options.fail_on_data_loss)
    return logs


def _logs_in(path: Path) -> Iterator[tuple[TopicPartition, Path]]:
    if log_files(path):
        yield TopicPartition.named(path.name) or TopicPartition(path.name, 0), path
        return
    for name in partitions_in(path):
        yield name, path / name.directory_name


def _check_found(subscription: Subscription, logs: Mapping[TopicPartition, object], where: str, fail: bool) -> None:
    topics = {each.topic for each in logs}
    missing = [topic for topic in subscription.topics if topic not in topics]
    missing += [each.directory_name for each in subscription.partitions if each not in logs]
    if missing:
        check_missing(subscription.kind, missing, fail, InvalidArgumentError(
            f"option {subscription.kind}: {', '.join(missing)}: not in {where}"))
