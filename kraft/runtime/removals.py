"""Every removal of a partition's directory, and of files in one, by a running node (docs/internals/deletion.md).

Only a record of the metadata log deletes data: one that deletes the topic, or that takes the replica from this node,
for the topic id that the directory holds. `record` notes such a record. Any other directory that belongs to no replica
is renamed to `-stray`: it is neither served nor deleted. Two kinds of directories are copies and hold nothing of their
own: a future replica while the replica that it copies is open, and the replica that a complete future replica replaced.
"""

import heapq
import logging
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from uuid import UUID

from kraft.log_dir import DELETED_SUFFIX, STRAY_SUFFIX, LogDir, TopicPartition, strays_in, topic_id_in
from kraft_native import fileio

log = logging.getLogger(__name__)


class Removals:
    """Loop thread only. Raises what renaming a directory raises."""

    def __init__(self) -> None:
        self._recorded: dict[TopicPartition, list[UUID]] = {}
        self._doomed: list[tuple[float, Path]] = []
        self.strays: dict[Path, LogDir] = {}
        """The stray directories, those of earlier processes too, with the log directory that each lies in."""

    # --- what the metadata log says

    def record(self, name: TopicPartition, topic_id: UUID) -> None:
        """A record of the metadata log removes this node's replica of that topic id."""
        self._recorded.setdefault(name, []).append(topic_id)

    def forget(self, name: TopicPartition, topic_id: UUID) -> None:
        """The removal is done."""
        left = [each for each in self._recorded.get(name, ()) if each != topic_id]
        if left:
            self._recorded[name] = left
        else:
            self._recorded.pop(name, None)

    def concerns(self, name: TopicPartition) -> bool:
        """Whether a removal is recorded for an earlier replica of that name, and not done."""
        return name in self._recorded

    # --- partition directories

    def remove(self, directory: LogDir, path: Path, name: TopicPartition, topic_id: UUID | None, *,
               delay_seconds: float = 0, durable: bool = True) -> None:
        """Deletes a partition's directory, replica or future replica, when a record says so; else sets it aside.

        `topic_id`: the one that this process opened it under; None: the directory's own file says it.
        """
        if not path.is_dir():
            return                     # it could not be made, or was removed by hand
        if topic_id is None:
            topic_id = topic_id_in(path)
        if topic_id is not None and topic_id in self._recorded.get(name, ()):
            self._doom(self._retired(directory, path, name, durable=durable), delay_seconds)
        else:
            self.set_aside(directory, path, name, "no record of the metadata log deletes it")

    def drop_copy(self, directory: LogDir, path: Path, name: TopicPartition) -> None:
        """Deletes a future replica whose original is open on this node."""
        self._doom(directory.retire_future(name, path), 0)

    def replaced(self, directory: LogDir, name: TopicPartition) -> None:
        """Deletes a replica that moved: the future replica, complete and durable, is about to get its name."""
        self._doom(directory.retire(*name), 0)

    def set_aside(self, directory: LogDir, path: Path, name: TopicPartition, why: str) -> None:
        """Renames a directory to `-stray`."""
        stray = directory.set_aside(path, name)
        self.strays[stray] = directory
        log.warning("%s: %s; it is renamed to %s and not served (kraft storage strays)", path, why, stray.name)

    @staticmethod
    def _retired(directory: LogDir, path: Path, name: TopicPartition, *, durable: bool) -> Path:
        if path.name == name.directory_name:
            return directory.retire(*name, durable=durable)
        return directory.retire_future(name, path)

    # --- what earlier processes left

    def note_strays(self, directory: LogDir) -> None:
        """Counts and reports the strays of an opened directory."""
        found = [path for _, path in strays_in(directory.path)]
        self.strays |= dict.fromkeys(found, directory)
        if found:
            log.warning("%s: %d stray partition directories, which are not served: kraft storage strays lists them",
                        directory.path, len(found))

    def finish(self, directory: LogDir, is_missing: Callable[[TopicPartition, UUID | None], bool]) -> None:
        """Finishes the deletions that an earlier process decided. One of a replica that the metadata has here, and that
        `is_missing` finds nowhere else, is set aside."""
        for path in directory.deleted():
            name = TopicPartition.of_deleted(path.name)
            if name is not None and is_missing(name, topic_id_in(path)):
                self.set_aside(directory, path, name, "the metadata has this replica here, and there is no other copy")
            else:
                for error in remove_paths([path]):
                    log.warning("%s is left to the next start: %s", path, error)

    # --- files that go later

    def doom_segments(self, paths: Iterable[Path], delay_seconds: float) -> None:
        """Notes files of segments that retention or compaction removed from a log."""
        for path in paths:
            self._doom(path, delay_seconds)

    def _doom(self, path: Path, delay_seconds: float) -> None:
        heapq.heappush(self._doomed, (time.monotonic() + delay_seconds, path))

    def take_removable(self) -> list[Path]:
        """Files and directories whose delay has passed; the caller has them removed."""
        found: list[Path] = []
        now = time.monotonic()
        while self._doomed and self._doomed[0][0] <= now:
            found.append(heapq.heappop(self._doomed)[1])
        return found


def discard(stray: Path) -> None:
    """Deletes a stray, as an operator decided. An opening finishes it after a crash."""
    doomed = stray.with_name(stray.name.removesuffix(STRAY_SUFFIX) + DELETED_SUFFIX)
    fileio.rename(stray, doomed)
    fileio.sync_directory(doomed.parent)
    shutil.rmtree(doomed)


def remove_paths(paths: Iterable[Path]) -> list[OSError]:
    """Removes files and directories; those that are missing already do no harm. What cannot be removed is left to the
    next opening; gives the first error of each. Any thread: freeing a large file takes the system a while."""
    failures = []
    for path in paths:
        try:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except FileNotFoundError:
            continue
        except OSError as error:
            failures.append(error)
    return failures
