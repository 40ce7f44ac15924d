"""All logs of a node: where each lies, opening and making them, taking them away, and what is to be removed."""

import errno
import heapq
import logging
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import UUID

from kraft.broker.ports import LogDirUsage
from kraft.log import Log
from kraft.log_dir import METADATA_TOPIC, LogDir, TopicPartition
from kraft_native.config import LogConfig
from kraft_native.errors import KraftError, StorageError
from kraft_native.flusher import Flusher

log = logging.getLogger(__name__)

STORAGE_ERROR: Final = 56
# Reading so much of a log back takes a few milliseconds; space reserved ahead counts too.
SCAN_BYTES_SHORT: Final = 16 << 20


class LogManager:
    """The open log directories. Loop thread only; a context in which `close` was called is closed for good.

    Raises what `LogDir` raises when one cannot be opened; the others are closed again then.
    """

    def __init__(self, paths: tuple[Path, ...], *, node_id: int, cluster_id: str, flusher: Flusher) -> None:
        self.directories: list[LogDir] = []
        self.offline: list[LogDir] = []
        """Those that failed while this node runs."""
        self._home: dict[TopicPartition, LogDir] = {}
        self._counts: Counter[LogDir] = Counter()
        self._doomed: list[tuple[float, Path]] = []
        try:
            for path in paths:
                self.directories.append(LogDir(path, node_id=node_id, cluster_id=cluster_id, flusher=flusher))
        except BaseException:
            self.close()
            raise
        for directory in self.directories:
            for partition in directory.partitions():
                if partition.topic != METADATA_TOPIC:
                    self._home[partition] = directory
                    self._counts[directory] += 1

    @property
    def directory_ids(self) -> tuple[UUID, ...]:
        """As registered with the controller, in the order of the configuration."""
        return tuple(directory.directory_id for directory in self.directories)

    @property
    def was_clean(self) -> bool:
        """Whether every directory was left by a clean stop."""
        return all(directory.was_clean for directory in self.directories)

    def partitions(self) -> Iterator[TopicPartition]:
        """The partitions that have a log here, open or not, by name."""
        yield from sorted(self._home)

    def home(self, topic: str, index: int) -> UUID | None:
        """The id of the directory that a partition's log lies in; None when it has none here."""
        directory = self._home.get(TopicPartition(topic, index))
        return None if directory is None else directory.directory_id

    def directory_of(self, topic: str, index: int) -> LogDir | None:
        """The directory that a partition's log lies in; None when it has none here."""
        return self._home.get(TopicPartition(topic, index))

    def take_offline(self, directory: LogDir) -> list[tuple[str, int]]:
        """Its logs are not opened any more; gives them by name. They stay on the disk, without the mark of a clean
        stop."""
        self.offline.append(directory)
        return [(name.topic, name.partition) for name in sorted(self._home) if self._home[name] is directory]

    def takes_long(self, topic: str, index: int) -> bool:
        """Whether opening the log may read so much, after a crash, that requests should not meet it."""
        directory = self._home.get(name := TopicPartition(topic, index))
        if directory is None or directory.was_clean:
            return False
        segments = (directory.path / name.directory_name).glob("*.log")
        newest = max(segments, default=None)
        return newest is not None and newest.stat().st_size > SCAN_BYTES_SHORT

    def open(self, topic: str, index: int, topic_id: UUID, config: LogConfig) -> Log:
        """The partition's log, made when there is none. One of an earlier topic of that name is taken away first."""
        name = TopicPartition(topic, index)
        directory = self._home.get(name)
        if directory in self.offline:
            raise StorageError(str(directory.path), errno.EIO, "the log directory has failed")
        if directory is not None and directory.topic_id(topic, index) not in (None, topic_id):
            log.warning("%s: its log belongs to a topic of that name that was deleted; it is removed", name)
            self.remove(topic, index, delay_seconds=0)
            directory = None
        if directory is None:
            directory = min((each for each in self.directories if each not in self.offline),
                            key=self._counts.__getitem__)
            self._home[name] = directory
            self._counts[directory] += 1
        return directory.log(topic, index, config=config, topic_id=topic_id)

    def remove(self, topic: str, index: int, *, delay_seconds: float) -> None:
        """Closes a partition's log and takes its directory out of the way at once; its files go after the delay."""
        directory = self._home.pop(TopicPartition(topic, index), None)
        if directory is not None and directory not in self.offline:
            self._counts[directory] -= 1
            self.doom([directory.retire(topic, index)], delay_seconds)

    def doom(self, paths: Iterable[Path], delay_seconds: float) -> None:
        """Notes files and directories, under names that an opening removes, for removal after the delay."""
        at = time.monotonic() + delay_seconds
        for path in paths:
            heapq.heappush(self._doomed, (at, path))

    def take_removable(self) -> list[Path]:
        """Those whose delay has passed; the caller has them removed."""
        found: list[Path] = []
        now = time.monotonic()
        while self._doomed and self._doomed[0][0] <= now:
            found.append(heapq.heappop(self._doomed)[1])
        return found

    def usage(self) -> list[LogDirUsage]:
        """Every directory with the logs in it."""
        return [self._usage_of(directory) for directory in self.directories]

    def _usage_of(self, directory: LogDir) -> LogDirUsage:
        path = str(directory.path.absolute())
        if directory in self.offline:
            return LogDirUsage(path, STORAGE_ERROR, -1, -1, ())
        try:
            space = os.statvfs(directory.path)
        except OSError:
            return LogDirUsage(path, STORAGE_ERROR, -1, -1, ())
        logs = tuple((name.topic, name.partition, each.size_bytes) for name, each in directory.open_logs())
        return LogDirUsage(path, 0, space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize, logs)

    @property
    def previous_epoch(self) -> int:
        """The broker epoch of the last clean stop; -1 when the last stop was none."""
        epochs = [directory.previous_broker_epoch for directory in self.directories]
        return min(epochs, default=-1) if self.was_clean else -1

    def close(self, *, clean: bool = True, broker_epoch: int = -1) -> None:
        """Closes all directories; when one fails the others are closed and the first failure is raised. Only with
        `clean` they carry the mark of a clean stop, with the broker's epoch in it."""
        failures: list[KraftError | OSError] = []
        for directory in self.directories:
            try:
                directory.close(clean=clean and directory not in self.offline, broker_epoch=broker_epoch)
            except (KraftError, OSError) as error:
                if directory not in self.offline:
                    failures.append(error)
        self.directories.clear()
        if failures:
            raise failures[0]


def remove_paths(paths: Iterable[Path]) -> None:
    """Removes files and directories; those that are gone already do no harm, and what cannot be removed is left to the
    next opening. Any thread: freeing a large file takes the system a while."""
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink(missing_ok=True)
