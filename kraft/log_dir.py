"""One directory of Kafka's `log.dirs`: the logs of many partitions, with the checkpoint files kept beside them.

    <dir>/.lock                               held while the directory is open
    <dir>/meta.properties                     node id, cluster id, directory id
    <dir>/recovery-point-offset-checkpoint    below it everything is durable: recovery starts there
    <dir>/log-start-offset-checkpoint         logs whose start lies inside a segment (deleted records)
    <dir>/replication-offset-checkpoint       high watermarks
    <dir>/.kafka_cleanshutdown                the last owner closed it; removed as soon as it is open again
    <dir>/<topic>-<partition>/                one log (`kraft.Log`)
    <dir>/<topic>-<partition>.<hex>-future/   a log that is on its way here from another directory (KIP-113)
    <dir>/<topic>-<partition>.<hex>-delete/   a log whose deletion was decided; its files are being removed
    <dir>/<topic>-<partition>.<hex>-stray/    a log that belongs to no known replica: neither served nor deleted

Either Kafka or this class may own a directory; each finds what the other left.
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
from types import TracebackType
from typing import NamedTuple, Self

from kraft.log import Log
from kraft_native import checkpoints, fileio
from kraft_native.config import LogConfig
from kraft_native.errors import (
    CorruptFileError,
    InvalidArgumentError,
    KraftError,
    LogClosedError,
    LogLockedError,
    StorageError,
)
from kraft_native.flusher import Flusher

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
PARTITION_METADATA = "partition.metadata"

# What follows when one of these files cannot be read.
WITHOUT = {
    RECOVERY_POINTS: "its logs are checked from their start",
    LOG_STARTS: "its logs start where they noted it themselves",
    HIGH_WATERMARKS: "its logs begin with the high watermarks that they noted themselves",
    CLEAN_SHUTDOWN: "this counts as an unclean stop, and the logs are recovered",
}

# Its log lies here too, opened by a controller that looks after it.
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
    """A partition's name; its directory is `<topic>-<partition>`."""

    topic: str
    partition: int

    @classmethod
    def checked(cls, topic: str, partition: int) -> Self:
        """The name when Kafka allows it, else `InvalidArgumentError`."""
        if not _TOPIC_NAME.fullmatch(topic) or topic in (".", "..") or len(topic) > TOPIC_NAME_BYTES_MAX:
            raise InvalidArgumentError(f"topic: {topic!r} is not 1 to {TOPIC_NAME_BYTES_MAX} of a-z A-Z 0-9 . _ - "
                                       "(and not . or ..)")
        if not 0 <= partition <= 2**31 - 1:
            raise InvalidArgumentError(f"partition: {partition} is not in 0 to 2147483647")
        return cls(topic, partition)

    @classmethod
    def named(cls, directory_name: str) -> Self | None:
        """The partition whose directory has that name; None for other names (`-delete`, `-future`, ...)."""
        if found := _PARTITION_DIRECTORY.fullmatch(directory_name):
            partition = cls(found["topic"], int(found["partition"]))
            if partition.directory_name == directory_name:  # not so for a number with leading zeros
                return partition
        return None

    @classmethod
    def of_future(cls, directory_name: str) -> Self | None:
        """The partition whose future replica's directory has that name; None for other names."""
        found = _FUTURE_DIRECTORY.fullmatch(directory_name)
        return cls.named(found["name"]) if found else None

    @classmethod
    def of_deleted(cls, directory_name: str) -> Self | None:
        """The partition whose deleted directory has that name; None for other names."""
        found = _DELETED_DIRECTORY.fullmatch(directory_name)
        return cls.named(found["name"]) if found else None

    @classmethod
    def of_stray(cls, directory_name: str) -> Self | None:
        """The partition whose stray directory has that name; None for other names. A long topic name is cut."""
        found = _STRAY_DIRECTORY.fullmatch(directory_name)
        return cls.named(found["name"]) if found else None

    @property
    def directory_name(self) -> str:
        return f"{self.topic}-{self.partition}"

    def stray_name(self) -> str:
        """A new name for a stray directory of the partition, as Kafka builds it: too long a topic name is cut."""
        suffix = f"-{self.partition}.{uuid.uuid4().hex}{STRAY_SUFFIX}"
        return self.topic[: _FILE_NAME_BYTES_MAX - len(suffix)] + suffix

    def future_name(self) -> str | None:
        """A new name for the directory of a future replica; None when it would be too long for a file."""
        name = f"{self.directory_name}.{uuid.uuid4().hex}-future"
        return name if len(name) <= _FILE_NAME_BYTES_MAX else None


def topic_id_in(directory: Path) -> uuid.UUID | None:
    """The topic id in a partition's directory; None when its `partition.metadata` is missing or cannot be read."""
    try:
        return checkpoints.read_partition_metadata(directory)
    except CorruptFileError:
        return None
    except StorageError as error:
        if not fileio.is_unreadable(error):
            raise
        return None


def write_topic_id(directory: Path, topic_id: uuid.UUID) -> None:
    """Writes `partition.metadata` in the place of whatever has the name and cannot be read."""
    file = directory / PARTITION_METADATA
    if file.is_dir():
        fileio.set_aside(file)
    checkpoints.write_partition_metadata(directory, topic_id)


def strays_in(directory: Path) -> list[tuple[TopicPartition, Path]]:
    """The stray partition directories in it, ours or Kafka's, by name."""
    names = sorted(entry.name for entry in directory.iterdir() if entry.name.endswith(STRAY_SUFFIX) and entry.is_dir())
    return [(partition, directory / name) for name in names
            if (partition := TopicPartition.of_stray(name)) is not None]


def new_cluster_id() -> str:
    """A random UUID as Kafka writes ids: 22 characters of base64url."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def partitions_in(directory: Path) -> Iterator[TopicPartition]:
    """The partitions that have a directory in it, sorted by name; `-delete`, `-future`, `-stray` ones are not."""
    for name in sorted(entry.name for entry in directory.iterdir() if entry.is_dir()):
        if (partition := TopicPartition.named(name)) is not None:
            yield partition


def noted_high_watermark(log: Path, shared: checkpoints.SharedOffsets | None = None) -> int | None:
    """The high watermark of a log without an owner, as the checkpoint beside its directory has it: 0 for a partition
    that is not in it. None where there is none; then nobody knows more than where the log ends. The metadata log's is
    not noted there.

    `CorruptFileError` when it cannot be read. `shared`: of a look at several logs.
    """
    directory = log.resolve()
    marks = directory.parent / HIGH_WATERMARKS
    name = TopicPartition.named(directory.name)
    if name is None or name.topic == METADATA_TOPIC:
        return None
    found = (shared or checkpoints.SharedOffsets()).read(marks)
    return None if found is None else found.get(name, 0)


class LogDir:
    """The open directory. One thread opens it, uses it and its logs, and closes it; it is a context manager.

    `config` is the default of logs opened without one of their own. `node_id` and `cluster_id` are written to
    `meta.properties` of a new directory (0 and a random one when not given); an existing one must agree. Logs with
    group commit share one flusher thread: that of `flusher`, which stays its maker's to close, or the directory's own.
    `finish_removals`: whether opening it removes what an earlier owner renamed to `-delete`; else that is the caller's.

    Raises `LogLockedError` when another process has the directory open, `InvalidArgumentError` when it belongs to
    another node or cluster, `CorruptFileError` when `meta.properties` cannot be read. Offset checkpoints and a mark of
    a clean stop that are damaged or cannot be read do not stop the opening: `notes` says what follows. A directory of
    such a name is renamed.
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
        self._flusher = flusher
        self._owns_flusher = False
        if not self.path.is_dir():
            fileio.make_directory(self.path)
            fileio.sync_directory(self.path.parent)
        self._lock = fileio.FileLock(self.path / ".lock")
        if not self._lock.acquired:
            raise LogLockedError(f"{self.path}: another process has this log directory open")
        try:
            self.meta = self._open_meta(node_id, cluster_id)
            here = set(self.partitions())
            self._recovery_points = self._read(RECOVERY_POINTS, here)
            self._log_starts = self._read(LOG_STARTS, here)
            self._high_watermarks = self._read(HIGH_WATERMARKS, here)
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

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
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
                raise InvalidArgumentError(f"{name}: {wanted!r} was asked for, but {self.path} belongs to {found!r}")
        return meta

    def _read(self, name: str, here: Collection[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """What a checkpoint says of the logs that are here. It may name others: of a log that was removed before a
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
            if not fileio.is_unreadable(error):
                raise
            self.notes.append(f"{error}; it is renamed to {Path(fileio.set_aside(file)).name}; {WITHOUT[name]}")
            return {}
        self._in_files |= found.keys()
        return {partition: offset for partition, offset in found.items() if partition in here}

    def _read_clean_mark(self) -> int | None:
        """The broker epoch of a clean stop. None without a mark that can be read: then the logs are recovered."""
        try:
            return checkpoints.read_clean_shutdown(self.path)
        except CorruptFileError as error:
            self.notes.append(f"{error}; {WITHOUT[CLEAN_SHUTDOWN]}")
        except StorageError as error:
            if not fileio.is_unreadable(error):
                raise
            self.notes.append(f"{error}; {WITHOUT[CLEAN_SHUTDOWN]}")
        return None

    def _remove_clean_mark(self) -> None:
        """Before any log changes, so that a crash from here on is seen as one (KAFKA-10471)."""
        mark = self.path / CLEAN_SHUTDOWN
        if os.path.lexists(mark):
            fileio.remove_or_set_aside(mark)
            fileio.sync_directory(self.path)

    def _remove_deleted(self) -> None:
        """Finishes the removals that an earlier owner began."""
        for path in self.deleted():
            shutil.rmtree(path)

    def deleted(self) -> list[Path]:
        """The directories that an owner renamed to `-delete`, and that still exist."""
        return sorted(entry for entry in self.path.iterdir() if entry.name.endswith(DELETED_SUFFIX) and entry.is_dir())

    def set_aside(self, path: Path, name: TopicPartition) -> Path:
        """Renames a partition's directory in this one, under whatever name it is here, to a stray one, durably. An open
        log is closed before. Gives the new path."""
        self._need_open()
        if path.name == name.directory_name:
            if (log := self._logs.pop(name, None)) is not None:
                log.close()
            self._drop_marks(name)
        stray = self.path / name.stray_name()
        fileio.rename(path, stray)
        fileio.sync_directory(self.path)
        return stray

    def partitions(self) -> Iterator[TopicPartition]:
        """The partitions that have a directory here, as `partitions_in` lists them."""
        return partitions_in(self.path)

    def log(self, topic: str, partition: int, *, config: LogConfig | None = None, topic_id: uuid.UUID | None = None,
            create: bool = True) -> Log:
        """The partition's log, opened at the first call and shared until it is closed (`config` counts at the opening).

        `FileNotFoundError` when it does not exist and `create` is false.
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
            fileio.make_directory(directory)
            # Nothing is flushed here: the log does it, before its first record.
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
        """The id in `meta.properties` that tells this directory from any other, also from a wiped one."""
        assert self.meta.directory_id is not None, f"{self.path}: meta.properties has no directory.id"
        return self.meta.directory_id

    def topic_id(self, topic: str, partition: int) -> uuid.UUID | None:
        """The id of the topic that a partition's directory was made for; None when nothing readable says so."""
        return topic_id_in(self.path / TopicPartition(topic, partition).directory_name)

    def open_logs(self) -> Iterator[tuple[TopicPartition, Log]]:
        """The logs that are open now."""
        return ((name, log) for name, log in self._logs.items() if not log.closed)

    def retire(self, topic: str, partition: int, *, durable: bool = True) -> Path:
        """Closes a partition, without flushing what goes, and renames its directory, durably: it does not come back,
        even after a crash. Without `durable` it may, after a power loss: for who finds out then what should be gone.
        Gives the new path; its files are the caller's to remove, or the next opening's.

        `FileNotFoundError` when it does not exist.
        """
        self._need_open()
        name = TopicPartition.checked(topic, partition)
        if (log := self._logs.pop(name, None)) is not None:
            log.discard()
        directory = self.path / name.directory_name
        if not directory.is_dir():
            raise FileNotFoundError(f"{directory}: no such log")
        doomed = self._doom(directory, name, durable=durable)
        for marks in (self._recovery_points, self._log_starts, self._high_watermarks):
            marks.pop(name, None)
        return doomed

    def _doom(self, directory: Path, name: TopicPartition, *, durable: bool = True) -> Path:
        suffix = f".{uuid.uuid4().hex}{DELETED_SUFFIX}"
        doomed = self.path / (name.directory_name[: _FILE_NAME_BYTES_MAX - len(suffix)] + suffix)
        fileio.rename(directory, doomed)
        if durable:
            fileio.sync_directory(self.path)
        return doomed

    # --- replicas on their way here (KIP-113)

    def futures(self) -> list[tuple[TopicPartition, Path]]:
        """The future replicas in it with their directories, by name."""
        names = sorted(entry.name for entry in self.path.iterdir() if entry.is_dir())
        return [(partition, self.path / name) for name in names
                if (partition := TopicPartition.of_future(name)) is not None]

    def begin_future(self, name: TopicPartition, topic_id: uuid.UUID) -> Path:
        """Makes the directory of a future replica, durably. `InvalidArgumentError` when its name would be too long."""
        self._need_open()
        future_name = name.future_name()
        if future_name is None:
            raise InvalidArgumentError(f"topic: the name {name.topic!r} is too long for a move between directories")
        directory = self.path / future_name
        fileio.make_directory(directory)
        checkpoints.write_partition_metadata(directory, topic_id)
        fileio.sync_directory(directory)
        fileio.sync_directory(self.path)
        return directory

    def promote_future(self, name: TopicPartition, directory: Path) -> None:
        """The future replica, closed, is the partition's log from now on, durably. There must be no other here."""
        self._need_open()
        self._forget(name)
        fileio.rename(directory, self.path / name.directory_name)
        fileio.sync_directory(self.path)

    def retire_future(self, name: TopicPartition, directory: Path) -> Path:
        """Renames a future replica that is not wanted any more; as `retire`."""
        self._need_open()
        return self._doom(directory, name)

    def delete(self, topic: str, partition: int) -> None:
        """Closes and removes a partition. Once this returns it does not come back, even after a crash.

        `FileNotFoundError` when it does not exist.
        """
        doomed = self.retire(topic, partition)
        try:
            self.checkpoint()
        finally:
            shutil.rmtree(doomed)

    def checkpoint(self) -> None:
        """Makes each log's checkpoint and writes the directory's files, so that a restart scans less.

        A log that fails does not keep the others from theirs. The first failure is raised at the end, with the others
        as notes; of a failed log the marks of its last checkpoint are written.
        """
        self._need_open()
        failures: list[KraftError] = []
        for name, log in self._logs.items():
            try:
                if not log.closed:
                    log.checkpoint()
            except KraftError as error:
                failures.append(error)
            self.note(name, log)
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

    def note(self, name: TopicPartition, log: Log) -> None:
        """Takes over the marks of a log, open or closed."""
        self._recovery_points[name] = log.recovery_point
        self._high_watermarks[name] = log.high_watermark
        if log.closed or log.log_start_offset > log.segments[0].base_offset:
            self._log_starts[name] = log.log_start_offset
        else:
            self._log_starts.pop(name, None)

    def write_marks(self) -> None:
        """Writes the checkpoint files, durably: of each log what was noted of it last. Any thread."""
        with self._writing:
            # Copied in one step each: the owner's thread may go on.
            points, starts, marks = dict(self._recovery_points), dict(self._log_starts), dict(self._high_watermarks)
            checkpoints.write_offsets(self.path / RECOVERY_POINTS, points)
            checkpoints.write_offsets(self.path / LOG_STARTS, starts)
            checkpoints.write_offsets(self.path / HIGH_WATERMARKS, marks)
            self._in_files = {*points, *starts, *marks}

    def _drop_marks(self, name: TopicPartition) -> None:
        for marks in (self._recovery_points, self._log_starts, self._high_watermarks):
            marks.pop(name, None)

    def _forget(self, name: TopicPartition) -> None:
        """A new log comes to the place of that name. After a crash nothing may be believed of it that was noted of one
        that was there before: it would be taken for one that lost all its records."""
        self._drop_marks(name)
        with self._writing:
            stale = name in self._in_files
        if stale:
            self.write_marks()

    def close(self, *, clean: bool = True, broker_epoch: int = -1) -> None:
        """Closes all logs, checkpoints, and leaves the mark of a clean stop, with a broker's epoch in it, unless
        `clean` is False or a log of an earlier crash was never opened, so not recovered. Twice is harmless.

        When something cannot be closed cleanly the rest is closed, the mark is not left, and the error is raised.
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
