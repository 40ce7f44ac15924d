"""All logs of a node: their directories, their opening and creation, their removal.

A replica that moves to another directory has a future replica there (KIP-113). It takes the replica's place in the end
by two renames: the old one is renamed away first. A crash therefore leaves the old one, or a future replica that is
complete.
"""

import errno
import logging
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Final
from uuid import UUID

from kraft.broker.ports import LogDirUsage, LogUsage
from kraft.log import Log
from kraft.log_dir import METADATA_TOPIC, LogDir, TopicPartition, topic_id_in, write_topic_id
from kraft.metadata.image import UNASSIGNED_DIRECTORY, MetadataImage
from kraft.runtime.base.descriptors import need_one
from kraft.runtime.storage.formatting import read_identity
from kraft.runtime.storage.removals import Removals
from kraft_native.base.errors import CorruptFileError, KraftError, StorageError
from kraft_native.log.flusher import Flusher
from kraft_native.segment.config import LogConfig

log = logging.getLogger(__name__)

STORAGE_ERROR: Final = 56
# Recovery of a log of this size takes a few milliseconds; preallocated space counts, too.
SCAN_BYTES_SHORT: Final = 16 << 20
PREFERRED_MAX: Final = 100_000


@dataclass
class Future:
    """A replica on its way to another directory. The copying move updates its end and size."""

    directory: LogDir
    path: Path
    end_offset: int = 0
    size_bytes: int = 0


class LogManager:
    """The open log directories. Loop thread only. After `close` the instance stays closed.

    A directory that cannot be read or written is offline, unless it is `needed` or the last one; then the error of
    `LogDir` is raised. So is the error of a directory that is locked or another node's. The other directories are
    closed again before.
    """

    def __init__(self, paths: tuple[Path, ...], *, node_id: int, cluster_id: str, flusher: Flusher,
                 needed: Path | None = None) -> None:
        self.directories: list[LogDir] = []
        self.offline: list[LogDir] = []
        """Directories that failed while this node runs."""
        self.unopened: list[Path] = []
        """Directories that could not be opened at the start."""
        self._home: dict[TopicPartition, LogDir] = {}
        self._duplicates: dict[TopicPartition, list[LogDir]] = {}
        """Partitions with a log in several directories; see `settle`."""
        self._counts: Counter[LogDir] = Counter()
        self._topic_ids: dict[TopicPartition, UUID] = {}
        """Topic ids under which the logs were opened."""
        self.removals = Removals()
        self._preferred: dict[TopicPartition, LogDir] = {}
        """Directories in which replicas that do not exist here yet are to be created."""
        self.futures: dict[TopicPartition, Future] = {}
        self._spare_futures: list[tuple[TopicPartition, Future]] = []
        """Future replicas beside another one, or beside their replica."""
        try:
            for path in paths:
                self._open_directory(path, needed, node_id, cluster_id, flusher)
        except BaseException:
            self.close()
            raise
        if not self.directories:
            raise StorageError(str(paths[0]), errno.EIO, "no log directory can be opened")
        for directory in self.directories:
            for partition in directory.partitions():
                if partition.topic == METADATA_TOPIC:
                    continue
                if partition in self._home:
                    self._duplicates.setdefault(partition, [self._home[partition]]).append(directory)
                else:
                    self._set_home(partition, directory)
        for directory in self.directories:
            for partition, path in directory.futures():
                if partition in self.futures or self._home.get(partition) is directory:
                    self._spare_futures.append((partition, Future(directory, path)))
                else:
                    self.futures[partition] = Future(directory, path)

    def _open_directory(self, path: Path, needed: Path | None, node_id: int, cluster_id: str, flusher: Flusher) -> None:
        try:
            read_identity(path)
            opened = LogDir(path, node_id=node_id, cluster_id=cluster_id or None, flusher=flusher,
                            finish_removals=False)
        except (OSError, StorageError, CorruptFileError):
            if path == needed:
                raise
            log.exception("log directory %s cannot be opened, its replicas are offline", path)
            self.unopened.append(path)
            return
        self.directories.append(opened)
        for note in opened.notes:
            log.warning("%s", note)

    @property
    def has_offline(self) -> bool:
        """Return whether logs may exist that cannot be read."""
        return bool(self.offline or self.unopened)

    def may_be_offline(self, directory_id: UUID) -> bool:
        """Return whether a replica without a log here may have one in an offline directory. `directory_id` is its
        directory in the metadata. Its log must not be created again then."""
        return self.has_offline and directory_id != UNASSIGNED_DIRECTORY and not any(
            each.directory_id == directory_id for each in self.directories if each not in self.offline)

    @property
    def directory_ids(self) -> tuple[UUID, ...]:
        """Directory ids as registered with the controller, in the order of the configuration."""
        return tuple(directory.directory_id for directory in self.directories)

    @property
    def was_clean(self) -> bool:
        """Return whether every directory was left by a clean stop, as far as is known."""
        return not self.unopened and all(directory.was_clean for directory in self.directories)

    def partitions(self) -> Iterator[TopicPartition]:
        """The partitions that have a log here, open or not, by name."""
        yield from sorted(self._home)

    def holds(self, name: TopicPartition) -> bool:
        """Return whether a partition has a log or a future replica here."""
        return name in self._home or name in self.futures

    def home(self, topic: str, index: int) -> UUID | None:
        """Id of the directory that holds a partition's log; None when it has none here."""
        directory = self._home.get(TopicPartition(topic, index))
        return None if directory is None else directory.directory_id

    def directory_of(self, topic: str, index: int) -> LogDir | None:
        """Directory that holds a partition's log; None when it has none here."""
        return self._home.get(TopicPartition(topic, index))

    def take_offline(self, directory: LogDir) -> list[tuple[str, int]]:
        """Take a directory offline: its logs are not opened again. Returns their names. The logs stay on the disk,
        without the mark of a clean stop."""
        self.offline.append(directory)
        return [(name.topic, name.partition) for name in sorted(self._home) if self._home[name] is directory]

    def is_slow_to_open(self, topic: str, index: int) -> bool:
        """Return whether opening the log after a crash may read so much that requests should not wait for it."""
        directory = self._home.get(name := TopicPartition(topic, index))
        if directory is None or directory.was_clean:
            return False
        path = directory.path / name.directory_name
        newest = max(glob("*.log", root_dir=path), default=None)
        return newest is not None and (path / newest).stat().st_size > SCAN_BYTES_SHORT

    def open(self, topic: str, index: int, topic_id: UUID, config: LogConfig) -> Log:
        """Return the partition's log, and create it when none exists. The log of an earlier topic of that name is
        removed first."""
        name = TopicPartition(topic, index)
        directory = self._home.get(name)
        if directory in self.offline:
            raise StorageError(str(directory.path), errno.EIO, "the log directory has failed")
        if directory is not None and not self._belongs(directory, name, topic_id):
            self.remove(topic, index, delay_seconds=0)
            directory = None
        if directory is None:
            online = [each for each in self.directories if each not in self.offline]
            directory = self._preferred.pop(name, None)
            if directory not in online:
                directory = min(online, key=self._counts.__getitem__)
            self._set_home(name, directory)
        need_one(str(directory.path))
        opened = directory.log(topic, index, config=config, topic_id=topic_id)
        self._topic_ids[name] = topic_id
        return opened

    def _belongs(self, directory: LogDir, name: TopicPartition, topic_id: UUID) -> bool:
        """Return whether the log directory of that name is of that topic. If its `partition.metadata` is missing or
        damaged, it is, and gets a new file, unless an earlier replica of that name is still to be removed."""
        path = directory.path / name.directory_name
        if not path.is_dir():
            return True                # it could not be created before
        found = self._topic_ids.get(name) or topic_id_in(path)
        if found is None and not self.removals.concerns(name):
            log.warning("%s/partition.metadata is missing or damaged; it is written again with the topic id that the "
                        "metadata log has", path)
            write_topic_id(path, topic_id)
            found = topic_id
        return found == topic_id

    def settle(self, name: TopicPartition, topic_id: UUID, directory_id: UUID) -> None:
        """Choose one of several logs of a partition, and set the others aside. The chosen log is of that topic, in the
        directory that the metadata names. The reason: while a directory was offline, the log may have been created
        again in another one.

        Where the metadata names none of them, a directory that was left by a clean stop is chosen: a directory that was
        offline has no mark of one.
        """
        places = self._duplicates.pop(name, [])
        if not places:
            return
        fit = [each for each in places if each.topic_id(*name) in (None, topic_id)] or places
        kept = next((each for each in fit if each.directory_id == directory_id), None) or \
            next((each for each in fit if each.was_clean), fit[0])
        log.warning("%s-%d: in several log directories; the one in %s stays", *name, kept.path)
        self._set_home(name, kept)
        for each in places:
            if each is not kept:
                self.removals.set_aside(each, each.path / name.directory_name, name, "another one has the replica")

    def _set_home(self, name: TopicPartition, directory: LogDir) -> None:
        before = self._home.get(name)
        if before is not None:
            self._counts[before] -= 1
        self._home[name] = directory
        self._counts[directory] += 1

    def remove(self, topic: str, index: int, *, delay_seconds: float) -> None:
        """Close a partition's log and rename its directory at once. The new name is for deletion after the delay when a
        record of the metadata log deletes the partition, else for a stray. Should a power loss undo the renaming, the
        next start decides again."""
        name = TopicPartition(topic, index)
        self.remove_future(name)
        directory = self._home.pop(name, None)
        topic_id = self._topic_ids.pop(name, None)
        if directory is not None and directory not in self.offline:
            self._counts[directory] -= 1
            for each in self._duplicates.pop(name, [directory]):
                opened_as = topic_id if each is directory else None
                self.removals.remove(each, each.path / name.directory_name, name, opened_as,
                                     delay_seconds=delay_seconds, durable=False)

    def finish_removals(self, image: MetadataImage, node_id: int) -> None:
        """Finish the removals that earlier processes left. Call when the metadata is known and every replica has its
        place."""
        for name, future in self._spare_futures:
            self.removals.set_aside(future.directory, future.path, name, "another copy has the replica")
        self._spare_futures.clear()

        def is_missing(name: TopicPartition, topic_id: UUID | None) -> bool:
            registration = image.partition(*name)
            return (registration is not None and node_id in registration.replicas and name not in self._home
                    and topic_id in (None, image.topic_ids[name.topic]))

        for directory in self.directories:
            if directory not in self.offline:
                self.removals.note_strays(directory)
                self.removals.finish(directory, is_missing)

    # --- moves between directories

    def directory_at(self, path: str) -> LogDir | None:
        """Directory of that path, in the form that `usage` reports."""
        return next((each for each in self.directories if _path_text(each.path) == path), None)

    def is_offline(self, path: str) -> bool:
        """Return whether that path is a directory of this node that is offline."""
        return path in map(_path_text, (*self.unopened, *(each.path for each in self.offline)))

    def prefer(self, topic: str, index: int, directory: LogDir) -> None:
        """Choose the directory for a replica that does not exist here yet and may never come."""
        if len(self._preferred) < PREFERRED_MAX:
            self._preferred[TopicPartition(topic, index)] = directory

    def begin_future(self, topic: str, index: int, topic_id: UUID, directory: LogDir) -> Future:
        """Create, durably, a place for the replica in another directory. None may exist yet."""
        name = TopicPartition(topic, index)
        future = self.futures[name] = Future(directory, directory.begin_future(name, topic_id))
        return future

    def drop_future(self, name: TopicPartition) -> None:
        """Give a move up; the future replica must not be open. It is deleted as a copy if the replica is open, else set
        aside."""
        future = self.futures.pop(name, None)
        if future is None or future.directory in self.offline:
            return
        home = self._home.get(name)
        if home is not None and home not in self.offline and name in self._topic_ids:
            self.removals.drop_copy(future.directory, future.path, name)
        else:
            self.removals.set_aside(future.directory, future.path, name, "the replica that it copies is not here")

    def remove_future(self, name: TopicPartition) -> None:
        """Remove the future replica of a replica that this node has lost."""
        future = self.futures.pop(name, None)
        if future is not None and future.directory not in self.offline:
            self.removals.remove(future.directory, future.path, name, None)

    def set_future_aside(self, name: TopicPartition) -> None:
        """Set aside a future replica whose replica is missing or lies beside it: either may have more."""
        future = self.futures.pop(name)
        if future.directory not in self.offline:
            self.removals.set_aside(future.directory, future.path, name, "the replica that it copies is not elsewhere")

    def promote(self, name: TopicPartition) -> None:
        """Put the closed future replica in the place of the replica, whose log, if one is here, is closed."""
        future = self.futures[name]
        source = self._home.get(name)
        if source is not None:
            self.removals.replaced(source, name)
        self._set_home(name, future.directory)          # if a later step fails, it fails in that directory
        future.directory.promote_future(name, future.path)
        del self.futures[name]

    def usage(self) -> list[LogDirUsage]:
        """Every directory with the logs in it."""
        return [*(self._usage_of(directory) for directory in self.directories),
                *(_unknown_usage(path) for path in self.unopened)]

    def _usage_of(self, directory: LogDir) -> LogDirUsage:
        if directory in self.offline:
            return _unknown_usage(directory.path)
        try:
            space = os.statvfs(directory.path)
        except OSError:
            return _unknown_usage(directory.path)
        logs = (*(LogUsage(*name, each.size_bytes) for name, each in directory.open_logs()),
                *(LogUsage(*name, future.size_bytes, self._lag(name, future), is_future=True)
                  for name, future in self.futures.items() if future.directory is directory))
        return LogDirUsage(_path_text(directory.path), 0, space.f_blocks * space.f_frsize,
                           space.f_bavail * space.f_frsize, logs)

    def _lag(self, name: TopicPartition, future: Future) -> int:
        directory = self._home.get(name)
        opened = dict(directory.open_logs()).get(name) if directory is not None else None
        return -1 if opened is None else opened.log_end_offset - future.end_offset

    @property
    def previous_epoch(self) -> int:
        """Broker epoch of the last clean stop; -1 when the last stop was not clean."""
        epochs = [directory.previous_broker_epoch for directory in self.directories]
        return min(epochs, default=-1) if self.was_clean else -1

    def close(self, *, clean: bool = True, broker_epoch: int = -1) -> None:
        """Close all directories. When one fails, the others are still closed, and the first failure is raised. Only
        with `clean` do they get the mark of a clean stop, with the broker's epoch in it."""
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


def _path_text(path: Path) -> str:
    return str(path.absolute())


def _unknown_usage(path: Path) -> LogDirUsage:
    return LogDirUsage(_path_text(path), STORAGE_ERROR, -1, -1, ())
