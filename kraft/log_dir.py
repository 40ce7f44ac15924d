"""One directory of Kafka's `log.dirs`: the logs of many partitions and the checkpoint files beside them.

    <dir>/.lock                               held while the directory is open
    <dir>/meta.properties                     node id, cluster id, directory id
    <dir>/recovery-point-offset-checkpoint    everything below it is durable: recovery starts there
    <dir>/log-start-offset-checkpoint         logs whose start lies inside a segment (deleted records)
    <dir>/replication-offset-checkpoint       high watermarks
    <dir>/.kafka_cleanshutdown                the last owner closed it cleanly; removed at the next open
    <dir>/<topic>-<partition>/                one log (`kraft.Log`)
    <dir>/<topic>-<partition>.<hex>-future/   a log that is being moved here from another directory (KIP-113)
    <dir>/<topic>-<partition>.<hex>-delete/   a log whose deletion was decided; its files are being removed
    <dir>/<topic>-<partition>.<hex>-stray/    a log that belongs to no known replica: neither served nor deleted

Either Kafka or this class may own a directory; each can open what the other left.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import threading
import uuid
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Self

from kraft.log import Log
from kraft_native.base.errors import (
    CorruptFileError,
    InvalidArgumentError,
    KraftError,
    LogClosedError,
    LogLockedError,
    StorageError,
)
from kraft_native.file import file_io
from kraft_native.log.flusher import Flusher
from kraft_native.segment import checkpoints
from kraft_native.segment.config import LogConfig

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
PARTITION_METADATA = "partition.metadata"

# The consequence when one of these files cannot be read.
WITHOUT = {
    RECOVERY_POINTS: "its logs are checked from their start",
    LOG_STARTS: "its logs start where they noted it themselves",
    HIGH_WATERMARKS: "its logs begin with the high watermarks that they noted themselves",
    CLEAN_SHUTDOWN: "this counts as an unclean stop, and the logs are recovered",
}

# Its log lies here too; the controller opens and maintains it.
METADATA_TOPIC = "__cluster_metadata"

TOPIC_NAME_BYTES_MAX = 249
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_PARTITION_DIRECTORY = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)")
_FUTURE_DIRECTORY = re.compile(r"(?P<name>.+)\.[0-9a-f]{32}-future")
_DELETED_DIRECTORY = re.compile(r"(?P<name>.+)\.[0-9a-f]{32}-delete")
_STRAY_DIRECTORY = re.compile(r"(?P<name>.+)\.[0-9a-f]{32}-stray")
DELETED_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
_FILE_NAME_BYTES_MAX = 255


class TopicPartition(NamedTuple):
    """Name of a partition; its directory is `<topic>-<partition>`."""

    topic: str
    partition: int

    @classmethod
    def checked(cls, topic: str, partition: int) -> Self:
        """Return the name when Kafka allows it, else raise `InvalidArgumentError`."""
        if not _TOPIC_NAME.fullmatch(topic) or topic in (".", "..") or len(topic) > TOPIC_NAME_BYTES_MAX:
            raise InvalidArgumentError(f"topic: {topic!r} is not 1 to {TOPIC_NAME_BYTES_MAX} of a-z A-Z 0-9 . _ - "
                                       "(and not . or ..)")
        if not 0 <= partition <= 2**31 - 1:
            raise InvalidArgumentError(f"partition: {partition} is not in 0 to 2147483647")
        return cls(topic, partition)

    @classmethod
    def named(cls, directory_name: str) -> Self | None:
        """Return the partition whose directory has that name; None for other names (`-delete`, `-future`, ...)."""
        if found := _PARTITION_DIRECTORY.fullmatch(directory_name):
            partition = cls(found["topic"], int(found["partition"]))
            if partition.directory_name == directory_name:  # false for a number with leading zeros
                return partition
        return None

    @classmethod
    def of_future(cls, directory_name: str) -> Self | None:
        """Return the partition whose future replica's directory has that name; None for other names."""
        found = _FUTURE_DIRECTORY.fullmatch(directory_name)
        return cls.named(found["name"]) if found else None

    @classmethod
    def of_deleted(cls, directory_name: str) -> Self | None:
        """Return the partition whose deleted directory has that name; None for other names."""
        found = _DELETED_DIRECTORY.fullmatch(directory_name)
        return cls.named(found["name"]) if found else None

    @classmethod
    def of_stray(cls, directory_name: str) -> Self | None:
        """Return the partition whose stray directory has that name; None for other names. A long topic name is cut."""
        found = _STRAY_DIRECTORY.fullmatch(directory_name)
        return cls.named(found["name"]) if found else None

    @property
    def directory_name(self) -> str:
        return f"{self.topic}-{self.partition}"

    def stray_name(self) -> str:
        """Return a new name for a stray directory of the partition, as Kafka builds it: a long topic name is cut."""
        suffix = f"-{self.partition}.{uuid.uuid4().hex}{STRAY_SUFFIX}"
        return self.topic[: _FILE_NAME_BYTES_MAX - len(suffix)] + suffix

    def future_name(self) -> str | None:
        """Return a new name for the directory of a future replica; None when it would be too long for a file name."""
        name = f"{self.directory_name}.{uuid.uuid4().hex}-future"
        return name if len(name) <= _FILE_NAME_BYTES_MAX else None


def _modified_ns(file: Path) -> int:
    """Return the time of a file's last change; 0 when it does not exist."""
    try:
        return file.lstat().st_mtime_ns
    except FileNotFoundError:
        return 0


def topic_id_in(directory: Path) -> uuid.UUID | None:
    """Return the topic id in a partition's directory; None when `partition.metadata` is missing or cannot be read."""
    try:
        return checkpoints.read_partition_metadata(directory)
    except CorruptFileError:
        return None
    except StorageError as error:
        if not file_io.is_unreadable(error):
            raise
        return None


def write_topic_id(directory: Path, topic_id: uuid.UUID) -> None:
    """Write `partition.metadata`, replacing an unreadable file or directory of that name."""
    file = directory / PARTITION_METADATA
    if file.is_dir():
        file_io.set_aside(file)
    checkpoints.write_partition_metadata(directory, topic_id)


def strays_in(directory: Path) -> list[tuple[TopicPartition, Path]]:
    """Return the stray partition directories in a log directory, ours or Kafka's, sorted by name."""
    return [(partition, directory / name) for name in directories_in(directory) if name.endswith(STRAY_SUFFIX)
            if (partition := TopicPartition.of_stray(name)) is not None]


def new_cluster_id() -> str:
    """Return a random UUID as Kafka writes ids: 22 characters of base64url."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def directories_in(directory: Path) -> list[str]:
    """Return the names of the directories in it, sorted. One system call reads the types of many entries: a start reads
    a directory of thousands of partitions a few times."""
    with os.scandir(directory) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir())


def partitions_in(directory: Path) -> Iterator[TopicPartition]:
    """Yield the partitions that have a directory in it, sorted by name, without `-delete`, `-future` and `-stray`."""
    for name in directories_in(directory):
        if (partition := TopicPartition.named(name)) is not None:
            yield partition


def noted_high_watermark(log: Path, shared: checkpoints.SharedOffsets | None = None) -> int | None:
    """Return the high watermark of a log without an owner from the checkpoint beside its directory. A partition that
    the checkpoint does not name has 0. None means that no checkpoint exists; then only the log end is known. The
    checkpoint does not hold the metadata log's high watermark.

    Raises `CorruptFileError` when the checkpoint cannot be read. `shared` caches checkpoints across several logs.
    """
    directory = log.resolve()
    marks = directory.parent / HIGH_WATERMARKS
    name = TopicPartition.named(directory.name)
    if name is None or name.topic == METADATA_TOPIC:
        return None
    found = (shared or checkpoints.SharedOffsets()).read(marks)
    return None if found is None else found.get(name, 0)


class LogDir:
    """An open log directory; a context manager. One thread opens it, uses it and its logs, and closes it.

    `config` is the default for logs opened without one of their own. `node_id` and `cluster_id` are written to
    `meta.properties` of a new directory (default: 0 and a random id); an existing one must agree. Logs with group
    commit share one flusher thread: `flusher`, which its creator closes, or the directory's own. With
    `finish_removals` the open removes what an earlier owner renamed to `-delete`; without it the caller does.

    Raises `LogLockedError` when another process has the directory open, `InvalidArgumentError` when it belongs to
    another node or cluster, `CorruptFileError` when `meta.properties` cannot be read. Damaged or unreadable offset
    checkpoints and clean-shutdown marks do not prevent the open; `notes` states the consequences. A directory that has
    the name of such a file is renamed.
    """

    def __init__(self, path: str | os.PathLike[str], *, config: LogConfig | None = None, node_id: int | None = None,
                 cluster_id: str | None = None, flusher: Flusher | None = None, finish_removals: bool = True) -> None:
        self.path = Path(path)
        self.config = LogConfig() if config is None else config
        self.notes: list[str] = []
        self._logs: dict[TopicPartition, Log] = {}
        self._opened: set[TopicPartition] = set()
        self._in_files: set[tuple[str, int]] = set()
        self._writing = threading.Lock()
        self._noted_ns: dict[tuple[str, int], int] = {}
        """Time at which a recovery point was noted; none for those that are as they were read."""
        self._flusher = flusher
        self._owns_flusher = False
        if not self.path.is_dir():
            file_io.make_directory(self.path)
            file_io.sync_directory(self.path.parent)
        self._lock = file_io.FileLock(self.path / ".lock")
        if not self._lock.acquired:
            raise LogLockedError(f"{self.path}: another process has this log directory open")
        try:
            self.meta = self._open_meta(node_id, cluster_id)
            present = set(self.partitions())
            self._read_ns = _modified_ns(self.path / RECOVERY_POINTS)
            self._recovery_points = self._read(RECOVERY_POINTS, present)
            self._log_starts = self._read(LOG_STARTS, present)
            self._high_watermarks = self._read(HIGH_WATERMARKS, present)
            previous = self._read_clean_mark()
            self.was_clean = previous is not None
            self.previous_broker_epoch = -1 if previous is None else previous
            self._remove_clean_mark()
            if finish_removals:
                self._remove_deleted()
        except BaseException:
            self._lock.release()
            raise
        self._open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _open_meta(self, node_id: int | None, cluster_id: str | None) -> checkpoints.MetaProperties:
        meta = checkpoints.read_meta_properties(self.path)
        if meta is None:
            meta = checkpoints.MetaProperties(0 if node_id is None else node_id, cluster_id or new_cluster_id(),
                                              uuid.uuid4())
            checkpoints.write_meta_properties(self.path, meta)
            return meta
        for name, wanted, found in (("node_id", node_id, meta.node_id), ("cluster_id", cluster_id, meta.cluster_id)):
            if wanted is not None and found is not None and wanted != found:
                raise InvalidArgumentError(f"{name}: {wanted!r} was requested, but {self.path} belongs to {found!r}")
        return meta

    def _read(self, name: str, present: Collection[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Read a checkpoint, reduced to the logs that exist here. It may name others: logs that were removed before a
        crash."""
        file = self.path / name
        if not os.path.lexists(file):
            return {}
        try:
            found = checkpoints.read_offsets(file)
        except CorruptFileError as error:
            self.notes.append(f"{error}; {WITHOUT[name]}")
            return {}
        except StorageError as error:
            if not file_io.is_unreadable(error):
                raise
            self.notes.append(f"{error}; it is renamed to {Path(file_io.set_aside(file)).name}; {WITHOUT[name]}")
            return {}
        self._in_files |= found.keys()
        return {partition: offset for partition, offset in found.items() if partition in present}

    def _read_clean_mark(self) -> int | None:
        """Return the broker epoch of a clean stop. None without a readable mark: then the logs are recovered."""
        try:
            return checkpoints.read_clean_shutdown(self.path)
        except CorruptFileError as error:
            self.notes.append(f"{error}; {WITHOUT[CLEAN_SHUTDOWN]}")
        except StorageError as error:
            if not file_io.is_unreadable(error):
                raise
            self.notes.append(f"{error}; {WITHOUT[CLEAN_SHUTDOWN]}")
        return None

    def _remove_clean_mark(self) -> None:
        """Remove the clean-shutdown mark. The caller does so before any log changes, so that a later crash is seen
        as one (KAFKA-10471)."""
        mark = self.path / CLEAN_SHUTDOWN
        if os.path.lexists(mark):
            file_io.remove_or_set_aside(mark)
            file_io.sync_directory(self.path)

    def _remove_deleted(self) -> None:
        """Finish the removals that an earlier owner began."""
        for path in self.deleted():
            shutil.rmtree(path)

    def deleted(self) -> list[Path]:
        """Return the directories that an owner renamed to `-delete` and that still exist."""
        return [self.path / name for name in directories_in(self.path) if name.endswith(DELETED_SUFFIX)]

    def set_aside(self, path: Path, name: TopicPartition) -> Path:
        """Rename a partition's directory, whatever its current name here, to a stray one, durably. An open log is
        closed first. Return the new path."""
        self._need_open()
        if path.name == name.directory_name:
            if (log := self._logs.pop(name, None)) is not None:
                log.close()
            self._drop_marks(name)
        stray = self.path / name.stray_name()
        file_io.rename(path, stray)
        file_io.sync_directory(self.path)
        return stray

    def partitions(self) -> Iterator[TopicPartition]:
        """Return the partitions that have a directory here, as `partitions_in` lists them."""
        return partitions_in(self.path)

    def log(self, topic: str, partition: int, *, config: LogConfig | None = None, topic_id: uuid.UUID | None = None,
            create: bool = True) -> Log:
        """Return the partition's log. The first call opens it with `config`; later calls share it until it is closed.

        Raises `FileNotFoundError` when it does not exist and `create` is false.
        """
        self._need_open()
        name = TopicPartition.checked(topic, partition)
        if (log := self._logs.get(name)) is not None:
            if not log.closed:
                return log
            self.note(name, log)
        directory = self.path / name.directory_name
        if not directory.is_dir():
            if not create:
                raise FileNotFoundError(f"{directory}: no such log")
            self._forget(name)
            file_io.make_directory(directory)
            # No flush here: the log flushes before its first record.
            checkpoints.write_partition_metadata(directory, topic_id or uuid.uuid4())
        settings = self.config if config is None else config
        if settings.durability == "group-commit" and self._flusher is None:
            self._flusher = Flusher(bytes_trigger=settings.flush_bytes, linger_us=settings.flush_interval_us)
            self._owns_flusher = True
        log = Log(directory, settings, log_start_offset=self._log_starts.get(name, -1),
                  recovery_point=self._recovery_points.get(name, -1),
                  clean=self.was_clean and name not in self._opened, flusher=self._flusher, log_dir_locked=True)
        self._opened.add(name)
        if settings.high_watermark == "manual" and name in self._high_watermarks:
            log.set_high_watermark(min(max(self._high_watermarks[name], log.log_start_offset), log.log_end_offset))
        self._logs[name] = log
        return log

    @property
    def directory_id(self) -> uuid.UUID:
        """Id in `meta.properties` that distinguishes this directory from any other, and from itself after a wipe."""
        assert self.meta.directory_id is not None, f"{self.path}: meta.properties has no directory.id"
        return self.meta.directory_id

    def topic_id(self, topic: str, partition: int) -> uuid.UUID | None:
        """Return the id of the topic that a partition's directory was created for; None when no readable file has it.
        """
        return topic_id_in(self.path / TopicPartition(topic, partition).directory_name)

    def open_logs(self) -> Iterator[tuple[TopicPartition, Log]]:
        """Return the logs that are open now."""
        return ((name, log) for name, log in self._logs.items() if not log.closed)

    def retire(self, topic: str, partition: int, *, durable: bool = True) -> Path:
        """Close a partition without flushing it, and rename its directory durably: it does not come back, even after a
        crash. Without `durable` it may come back after a power loss; that is for callers that detect obsolete replicas
        at their start. Return the new path; the caller or the next open removes its files.

        Raises `FileNotFoundError` when it does not exist.
        """
        self._need_open()
        name = TopicPartition.checked(topic, partition)
        if (log := self._logs.pop(name, None)) is not None:
            log.discard()
        directory = self.path / name.directory_name
        if not directory.is_dir():
            raise FileNotFoundError(f"{directory}: no such log")
        doomed = self._doom(directory, name, durable=durable)
        self._drop_marks(name)
        return doomed

    def _doom(self, directory: Path, name: TopicPartition, *, durable: bool = True) -> Path:
        suffix = f".{uuid.uuid4().hex}{DELETED_SUFFIX}"
        doomed = self.path / (name.directory_name[: _FILE_NAME_BYTES_MAX - len(suffix)] + suffix)
        file_io.rename(directory, doomed)
        if durable:
            file_io.sync_directory(self.path)
        return doomed

    # --- replicas that are being moved here (KIP-113)

    def futures(self) -> list[tuple[TopicPartition, Path]]:
        """Return the future replicas in it with their directories, sorted by name."""
        names = directories_in(self.path)
        return [(partition, self.path / name) for name in names
                if (partition := TopicPartition.of_future(name)) is not None]

    def begin_future(self, name: TopicPartition, topic_id: uuid.UUID) -> Path:
        """Create the directory of a future replica, durably. Raises `InvalidArgumentError` when its name would be too
        long."""
        self._need_open()
        future_name = name.future_name()
        if future_name is None:
            raise InvalidArgumentError(f"topic: the name {name.topic!r} is too long for a move between directories")
        directory = self.path / future_name
        file_io.make_directory(directory)
        checkpoints.write_partition_metadata(directory, topic_id)
        file_io.sync_directory(directory)
        file_io.sync_directory(self.path)
        return directory

    def promote_future(self, name: TopicPartition, directory: Path) -> None:
        """Make the future replica the partition's log, durably. It must be closed, and the partition must have no other
        log here."""
        self._need_open()
        self._forget(name)
        file_io.rename(directory, self.path / name.directory_name)
        file_io.sync_directory(self.path)

    def retire_future(self, name: TopicPartition, directory: Path) -> Path:
        """Rename a future replica that is obsolete, as `retire` does."""
        self._need_open()
        return self._doom(directory, name)

    def delete(self, topic: str, partition: int) -> None:
        """Close and remove a partition. Once this returns it does not come back, even after a crash.

        Raises `FileNotFoundError` when it does not exist.
        """
        doomed = self.retire(topic, partition)
        try:
            self.checkpoint()
        finally:
            shutil.rmtree(doomed)

    def checkpoint(self) -> None:
        """Checkpoint each log and write the directory's files, so that a restart scans less.

        A log that fails does not prevent the checkpoints of the others. The first failure is raised at the end, with
        the others as notes. For a failed log the marks of its last checkpoint are written.
        """
        self._need_open()
        failures: list[KraftError] = []
        for name, log in self._logs.items():
            since_ns = file_io.stamp_ns()
            try:
                if not log.closed:
                    log.checkpoint()
            except KraftError as error:
                failures.append(error)
            self.note(name, log, since_ns)
        self.write_marks()
        if failures:
            for other in failures[1:]:
                failures[0].add_note(f"and: {other}")
            raise failures[0]

    def _all_opened(self) -> bool:
        return all(name in self._opened or name.topic == METADATA_TOPIC for name in self.partitions())

    def _need_open(self) -> None:
        if not self._open:
            raise LogClosedError(f"{self.path}: the log directory was closed")

    def note(self, name: TopicPartition, log: Log, since_ns: int | None = None) -> None:
        """Record the marks of a log, open or closed, for the next checkpoint files. `since_ns`: a stamp from before the
        log's state was written with them, by default that of this moment.

        A recovery point keeps the time at which it was first noted. With a later one, the file would seem younger than
        that state, whose end of what was flushed would not hold: a disk that loses it would go unnoticed.
        """
        if name not in self._noted_ns or self._recovery_points.get(name) != log.recovery_point:
            self._noted_ns[name] = file_io.stamp_ns() if since_ns is None else since_ns
        self._recovery_points[name] = log.recovery_point
        self._high_watermarks[name] = log.high_watermark
        if log.closed or log.log_start_offset > log.segments[0].base_offset:
            self._log_starts[name] = log.log_start_offset
        else:
            self._log_starts.pop(name, None)

    def write_marks(self) -> None:
        """Write the checkpoint files, durably, with the marks that were last recorded for each log. Any thread may call
        it.

        A log may be truncated between its noting and this writing, or may not have been opened since the file was
        read. Therefore the file of the recovery points does not show the time of this writing, but that of the oldest
        noting in it. The state that a log has written since then is younger, and holds (`kraft_native.log.marks`).
        """
        with self._writing:
            # Each is copied in one step, because the owner's thread may change it meanwhile. The times come first: a
            # point is as young as its time, or younger.
            noted = dict(self._noted_ns)
            points, starts, marks = dict(self._recovery_points), dict(self._log_starts), dict(self._high_watermarks)
            oldest = min((noted.get(name, self._read_ns) for name in points), default=file_io.stamp_ns())
            checkpoints.write_offsets(self.path / RECOVERY_POINTS, points, modified_ns=max(oldest, self._read_ns))
            checkpoints.write_offsets(self.path / LOG_STARTS, starts)
            checkpoints.write_offsets(self.path / HIGH_WATERMARKS, marks)
            self._in_files = {*points, *starts, *marks}

    def _drop_marks(self, name: TopicPartition) -> None:
        self._noted_ns.pop(name, None)
        for marks in (self._recovery_points, self._log_starts, self._high_watermarks):
            marks.pop(name, None)

    def _forget(self, name: TopicPartition) -> None:
        """Drop the marks of an earlier log of that name before a new one is created. With marks of the earlier log, the
        new one would look after a crash as if it had lost all its records."""
        self._drop_marks(name)
        with self._writing:
            stale = name in self._in_files
        if stale:
            self.write_marks()

    def abandon(self) -> None:
        """Release the directory as the end of the process would: nothing more is flushed, written or marked."""
        for log in self._logs.values():
            log.discard()
        self._open = False
        self._lock.release()

    def close(self, *, clean: bool = True, broker_epoch: int = -1) -> None:
        """Close all logs, write the checkpoints, and leave the clean-shutdown mark with the broker epoch in it.

        The mark is not written when `clean` is False, or when a log from before a crash was never opened and so not
        recovered. When something cannot be closed cleanly, the rest is closed, the mark is not written, and the error
        is raised. A second call does nothing.
        """
        if not self._open:
            return
        with ExitStack() as last:
            last.callback(self._lock.release)
            if self._owns_flusher and self._flusher is not None:
                last.callback(self._flusher.close)
            with ExitStack() as logs:
                for log in self._logs.values():
                    logs.callback(log.close)
                try:
                    self.checkpoint()
                finally:
                    self._open = False
            for name, log in self._logs.items():
                self._recovery_points[name] = log.recovery_point
            self.write_marks()
            if clean and (self.was_clean or self._all_opened()):
                checkpoints.write_clean_shutdown(self.path, broker_epoch)
