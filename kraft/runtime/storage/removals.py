"""Every removal, by a running node, of a partition's directory or of files in one (docs/internals/deletion.md).

Only a record of the metadata log deletes data. It deletes the topic or takes the replica from this node, for the topic
id that the directory holds; `record` notes it. Any other directory that belongs to no replica is renamed to `-stray`:
it is neither served nor deleted.

Three kinds of directories are copies and hold no data of their own:

- A future replica while the replica that it copies is open.
- The replica that a complete future replica replaced.
- The empty directory that the log of a future replica makes when it opens after the move was given up.
"""

import heapq
import logging
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from uuid import UUID

from kraft.log_dir import DELETED_SUFFIX, STRAY_SUFFIX, LogDir, TopicPartition, strays_in, topic_id_in
from kraft_native.file import file_io

log = logging.getLogger(__name__)


class Removals:
    """The removals of a node. Loop thread only. Raises what renaming a directory raises."""

    def __init__(self) -> None:
        self._recorded: dict[TopicPartition, list[UUID]] = {}
        self._scheduled: list[tuple[float, Path]] = []
        self.strays: dict[Path, LogDir] = {}
        """Stray directories, also of earlier processes, with the log directory that holds each."""

    # --- records of the metadata log

    def record(self, name: TopicPartition, topic_id: UUID) -> None:
        """Note a record of the metadata log that removes this node's replica of that topic id."""
        self._recorded.setdefault(name, []).append(topic_id)

    def forget(self, name: TopicPartition, topic_id: UUID) -> None:
        """Drop the record of a removal that is done."""
        left = [each for each in self._recorded.get(name, ()) if each != topic_id]
        if left:
            self._recorded[name] = left
        else:
            self._recorded.pop(name, None)

    def concerns(self, name: TopicPartition) -> bool:
        """Return whether a removal of an earlier replica of that name is recorded and not done."""
        return name in self._recorded

    # --- partition directories

    def remove(self, directory: LogDir, path: Path, name: TopicPartition, topic_id: UUID | None, *,
               delay_seconds: float = 0, durable: bool = True) -> None:
        """Delete a partition's directory, replica or future replica, when a record permits it; else set it aside.

        `topic_id` is the one under which this process opened it; None: read it from the directory.
        """
        if not path.is_dir():
            return                     # it could not be created, or was removed by hand
        if topic_id is None:
            topic_id = topic_id_in(path)
        if topic_id is not None and topic_id in self._recorded.get(name, ()):
            self._schedule(self._retired(directory, path, name, durable=durable), delay_seconds)
        else:
            self.set_aside(directory, path, name, "no record of the metadata log deletes it")

    def drop_copy(self, directory: LogDir, path: Path, name: TopicPartition) -> None:
        """Delete a future replica whose original is open on this node."""
        self._schedule(directory.retire_future(name, path), 0)

    def replaced(self, directory: LogDir, name: TopicPartition) -> None:
        """Delete a replica that moved: the future replica, complete and durable, is about to get its name."""
        self._schedule(directory.retire(*name), 0)

    def set_aside(self, directory: LogDir, path: Path, name: TopicPartition, why: str) -> None:
        """Rename a directory to `-stray`."""
        stray = directory.set_aside(path, name)
        self.strays[stray] = directory
        log.warning("%s: %s; it is renamed to %s and not served (kraft storage strays)", path, why, stray.name)

    @staticmethod
    def _retired(directory: LogDir, path: Path, name: TopicPartition, *, durable: bool) -> Path:
        if path.name == name.directory_name:
            return directory.retire(*name, durable=durable)
        return directory.retire_future(name, path)

    # --- leftovers of earlier processes

    def note_strays(self, directory: LogDir) -> None:
        """Count and report the strays of an opened directory."""
        found = [path for _, path in strays_in(directory.path)]
        self.strays |= dict.fromkeys(found, directory)
        if found:
            log.warning("%s: %d stray partition directories, which are not served: kraft storage strays lists them",
                        directory.path, len(found))

    def finish(self, directory: LogDir, is_missing: Callable[[TopicPartition, UUID | None], bool]) -> None:
        """Finish the deletions that an earlier process decided. A replica that the metadata has here, and that
        `is_missing` finds nowhere else, is set aside."""
        for path in directory.deleted():
            name = TopicPartition.of_deleted(path.name)
            if name is not None and is_missing(name, topic_id_in(path)):
                self.set_aside(directory, path, name, "the metadata has this replica here, and there is no other copy")
            else:
                for error in remove_paths([path]):
                    log.warning("%s is left to the next start: %s", path, error)

    # --- delayed deletions

    def schedule_removal(self, paths: Iterable[Path], delay_seconds: float) -> None:
        """Note files of segments that retention or compaction removed from a log."""
        for path in paths:
            self._schedule(path, delay_seconds)

    def _schedule(self, path: Path, delay_seconds: float) -> None:
        heapq.heappush(self._scheduled, (time.monotonic() + delay_seconds, path))

    def take_removable(self) -> list[Path]:
        """Files and directories whose delay has passed; the caller removes them."""
        found: list[Path] = []
        now = time.monotonic()
        while self._scheduled and self._scheduled[0][0] <= now:
            found.append(heapq.heappop(self._scheduled)[1])
        return found


def discard(stray: Path) -> None:
    """Delete a stray, as an operator decided. After a crash the next opening finishes it."""
    doomed = stray.with_name(stray.name.removesuffix(STRAY_SUFFIX) + DELETED_SUFFIX)
    file_io.rename(stray, doomed)
    file_io.sync_directory(doomed.parent)
    shutil.rmtree(doomed)


def remove_empty_copy(path: Path) -> None:
    """Remove the directory that the log of a copy has made, empty, after the copy's own one was renamed. That one has a
    topic id, and stays if it could not be renamed. Any thread."""
    if topic_id_in(path) is None:
        shutil.rmtree(path, ignore_errors=True)


def remove_paths(paths: Iterable[Path]) -> list[OSError]:
    """Remove files and directories; a missing one is no error. Returns the first error of each that cannot be removed;
    the next opening tries again. Any thread: freeing a large file takes the system a while."""
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
