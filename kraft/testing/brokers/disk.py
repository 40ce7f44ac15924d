"""The log directories of one broker, in a file system in memory: the real `kraft.runtime.storage.log_manager` on them,
and the effect of a failed directory or a loss of power.

A loss of power takes whole batches. Torn writes and single bytes are covered by the crash kit.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Final
from uuid import UUID

from kraft.log_dir import LogDir, TopicPartition
from kraft.runtime.storage.log_manager import LogManager
from kraft.runtime.storage.removals import remove_paths
from kraft.testing.brokers.log_view import LogView
from kraft.testing.brokers.replica import DURABILITIES, PAGE_CACHE
from kraft.testing.sim.cluster import CLUSTER_ID
from kraft_native.batch.batch import walk
from kraft_native.facade.log import Log
from kraft_native.log.flusher import Flusher
from kraft_native.segment.checkpoints import MetaProperties, write_meta_properties
from kraft_native.segment.config import LogConfig

Name = tuple[str, int]
ChainBefore = Callable[[Name, UUID, int], int | None]
"""Chain of the committed records of a partition of that topic id before an offset; None when it is unknown."""

MEMORY: Final = Path("/dev/shm")  # noqa: S108 - `mkdtemp` creates the directory in it
FLUSH_BYTES: Final = 1 << 40


class Storage:
    """The file system of a run: a directory in memory, and the flusher of its logs."""

    def __init__(self) -> None:
        self._root: Path | None = None
        self._flusher: Flusher | None = None

    @property
    def root(self) -> Path:
        if self._root is None:
            self._root = Path(tempfile.mkdtemp(prefix="kraft-simulate-", dir=MEMORY if MEMORY.is_dir() else None))
        return self._root

    @property
    def flusher(self) -> Flusher:
        """A flusher that works only while a log waits for it."""
        if self._flusher is None:
            self._flusher = Flusher(bytes_trigger=FLUSH_BYTES, linger_us=None)
        return self._flusher

    def close(self) -> None:
        if self._flusher is not None:
            self._flusher.close()
        if self._root is not None:
            rmtree(self._root)


class BrokerDisk:
    """The disk of one broker. `directories`: their ids; the first one has the metadata log. `logs` is set while a
    process runs."""

    def __init__(self, broker_id: int, directories: int, storage: Storage, chain_before: ChainBefore) -> None:
        self._broker_id = broker_id
        self._storage = storage
        self._chain_before = chain_before
        self._next_id = (broker_id << 64) + 999_999
        self._paths: dict[UUID, str] = {}
        for number in range(directories):
            self._paths[self._new_id()] = f"{broker_id}-{number}"
        self._failed: dict[UUID, None] = {}
        self._views: dict[tuple[Name, UUID], LogView] = {}
        self._homes: dict[Name, UUID] = {}
        self.logs: LogManager | None = None

    def _new_id(self) -> UUID:
        self._next_id += 1
        return UUID(int=self._next_id)

    def _path(self, directory: UUID) -> Path:
        return self._storage.root / self._paths[directory]

    @property
    def directories(self) -> list[UUID]:
        return list(self._paths)

    @property
    def online(self) -> list[UUID]:
        return [each for each in self._paths if each not in self._failed]

    # --- a process ----------------------------------------------------------------------------------------------------

    def reopen(self) -> int:
        """Open the directories for a new process. Return the broker epoch of the clean stop before; -1 without one."""
        for directory in self.online:
            path = self._path(directory)
            if not path.exists():
                path.mkdir()
                write_meta_properties(path, MetaProperties(self._broker_id, CLUSTER_ID, directory))
        paths = tuple(self._path(each) for each in self.online)
        self.logs = LogManager(paths, node_id=self._broker_id, cluster_id=CLUSTER_ID, flusher=self._storage.flusher,
                               needed=paths[0])
        self.logs.unopened += [self._path(each) for each in self._failed]
        self._homes = {name: home for name in self.logs.partitions() if (home := self.logs.home(*name)) is not None}
        return self.logs.previous_epoch

    def open(self, topic: str, index: int, topic_id: UUID, config: LogConfig) -> tuple[Log, LogView]:
        """Return the log and its view. A missing log is created; the log of an earlier topic with that name is
        removed first."""
        assert self.logs is not None
        name = TopicPartition(topic, index)
        log = self.logs.open(topic, index, topic_id, config)
        home = self.logs.home(topic, index)
        assert home is not None
        self._homes[name] = home
        view = self._views.get((name, home))
        if view is None or view.topic_id != topic_id:
            view = self._views[name, home] = LogView(
                topic_id, lambda offset: self._chain_before(name, topic_id, offset))
        view.read_back(log)
        view.durable_end = view.end_offset
        return log, view

    def remove(self, name: Name, topic_id: UUID | None) -> None:
        """Remove the log. `topic_id`: that of the record which deletes it; None: it belongs to no replica, and is set
        aside. A log in a failed directory stays there."""
        assert self.logs is not None
        if topic_id is not None:
            self.logs.removals.record(TopicPartition(*name), topic_id)
        home = self._homes.pop(name, None)
        if home is not None and home not in self._failed:
            self._views.pop((name, home), None)
        self.logs.remove(*name, delay_seconds=0)
        remove_paths(self.logs.removals.take_removable())

    def settle(self, name: Name, topic_id: UUID, directory: UUID) -> None:
        """Keep one of two logs of a partition (`LogManager.settle`)."""
        assert self.logs is not None
        self.logs.settle(TopicPartition(*name), topic_id, directory)
        home = self.logs.home(*name)
        assert home is not None
        self._homes[name] = home
        for each in [each for each in self._views if each[0] == name and each[1] != home and each[1] in self.online]:
            del self._views[each]

    def open_logs(self) -> Iterator[tuple[LogView, Log]]:
        """Yield the open logs with their views."""
        if self.logs is not None:
            for directory in self.logs.directories:
                for name, log in directory.open_logs():
                    view = self._views.get((name, directory.directory_id))
                    if view is not None:
                        yield view, log

    def checkpoint(self) -> None:
        """Write the high watermarks to the disk."""
        assert self.logs is not None
        for directory in self.logs.directories:
            if directory not in self.logs.offline:
                for name, log in directory.open_logs():
                    directory.note(name, log)
                directory.write_marks()

    def names(self) -> list[Name]:
        """Names of the logs in the open directories."""
        assert self.logs is not None
        return list(self.logs.partitions())

    def home(self, name: Name) -> UUID | None:
        """Directory of a log, as this process knows it; None when it has no such log."""
        assert self.logs is not None
        return self.logs.home(*name)

    def path_of(self, name: Name) -> Path:
        """Return the directory of a log."""
        return self._path(self._homes[name]) / TopicPartition(*name).directory_name

    @property
    def scratch(self) -> Path:
        """A path for a copy of a log, outside of the log directories; nothing lies there."""
        return self._storage.root / f"copy-{self._broker_id}"

    def is_offline(self, name: Name) -> bool:
        """Return whether the log's directory failed under this process, whatever the metadata says."""
        assert self.logs is not None
        return self.logs.directory_of(*name) in self.logs.offline

    def may_be_offline(self, directory: UUID) -> bool:
        """Return whether a log may lie in a failed directory. `directory` is the replica's directory in the
        metadata."""
        assert self.logs is not None
        return self.logs.may_be_offline(directory)

    # --- questions of the judges --------------------------------------------------------------------------------------

    def found(self, name: Name) -> LogView | None:
        """Return the view of the log, even from a failed directory: that may come back."""
        home = self._homes.get(name)
        view = None if home is None else self._views.get((name, home))
        return view or next((each for (other, _), each in self._views.items() if other == name), None)

    def kept(self) -> Iterator[tuple[Name, LogView]]:
        """Yield the logs that a running process has in its directories."""
        for (name, home), view in self._views.items():
            if self._homes.get(name) == home and home not in self._failed:
                yield name, view

    # --- stops --------------------------------------------------------------------------------------------------------

    def close(self, broker_epoch: int) -> None:
        """Stop cleanly: flush the logs and mark the directories that can be written."""
        logs = self.logs
        if logs is not None:
            views = list(self.open_logs())
            for view, log in views:
                view.read_back(log)
            self.logs = None
            logs.close(broker_epoch=broker_epoch)
            for view, _log in views:
                view.durable_end = view.end_offset

    def crash(self) -> None:
        """End the process: what it has written is in the files, and nothing more will be."""
        logs, views = self.logs, list(self.open_logs())
        self.logs = None
        if logs is None:
            return
        for view, log in views:
            view.read_back(log)
            if log.config.durability != DURABILITIES[PAGE_CACHE]:
                view.durable_end = log.durable_end_offset
        for directory in logs.directories:
            directory.abandon()

    def lose_power(self, random: Random) -> int:
        """Lose unflushed batches while no process runs; return their number."""
        return sum(self._lose(name, home, view, random) for (name, home), view in self._views.items()
                   if home not in self._failed)

    def _lose(self, name: Name, home: UUID, view: LogView, random: Random) -> int:
        """Lose unflushed batches of a log, from a random one on."""
        at_risk = view.at_risk
        lost = random.randrange(at_risk + 1) if random.random() < 0.7 else at_risk
        if lost:
            view.drop(lost)
            _cut_file(self._path(home) / TopicPartition(*name).directory_name, view.end_offset)
        return lost

    # --- failed directories -------------------------------------------------------------------------------------------

    def fail(self, directory: UUID) -> list[Name]:
        """Make a directory unreadable and unwritable under the process; return the names of its logs."""
        assert self.logs is not None
        failed = next(each for each in self.logs.directories if each.directory_id == directory)
        for view, log in self._open_in(failed):
            view.read_back(log)
            if log.config.durability != DURABILITIES[PAGE_CACHE]:
                view.durable_end = log.durable_end_offset
            log.discard()
        self._failed[directory] = None
        names = [name for name in self.logs.take_offline(failed) if self._homes.get(name) == directory]
        self._path(directory).rename(self._path(directory).with_suffix(".failed"))
        return names

    def _open_in(self, directory: LogDir) -> list[tuple[LogView, Log]]:
        return [(view, log) for name, log in directory.open_logs()
                if (view := self._views.get((name, directory.directory_id))) is not None]

    def repair(self, random: Random, *, replace: bool) -> int:
        """Repair the failed directories while no process runs. They have what the disk had, or new ones replace them.
        Return the number of lost batches."""
        failed, self._failed = list(self._failed), {}
        return sum(self._replace(each) if replace else self._bring_back(each, random) for each in failed)

    def _replace(self, directory: UUID) -> int:
        rmtree(self._path(directory).with_suffix(".failed"))
        lost = 0
        for name, home in [each for each in self._views if each[1] == directory]:
            lost += len(self._views.pop((name, home)).batches)
        self._paths = {self._new_id() if each == directory else each: path for each, path in self._paths.items()}
        return lost

    def _bring_back(self, directory: UUID, random: Random) -> int:
        self._path(directory).with_suffix(".failed").rename(self._path(directory))
        lost = 0
        for (name, home), view in self._views.items():
            if home == directory:
                lost += self._lose(name, home, view, random)
                self._homes.setdefault(name, home)
        return lost


def _cut_file(directory: Path, end_offset: int) -> None:
    """Cut the newest segment of a log behind the batch that ends at `end_offset`."""
    path = max(directory.glob("*.log"))
    batches = walk(path.read_bytes(), check_crc=False)
    position = 0
    for batch in batches:
        if batch.last_offset >= end_offset:
            break
        position = batches.position
    with path.open("r+b") as file:
        file.truncate(position)
