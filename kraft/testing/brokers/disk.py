"""The log directories of one broker: where each log lies, and what remains after a failed directory or a loss of power.
The model of `kraft.runtime.storage.log_manager` and of the marks of a clean stop."""

from random import Random
from typing import Final
from uuid import UUID

from kraft.metadata.image import UNASSIGNED_DIRECTORY
from kraft.testing.brokers.log import ReplicaLog

Name = tuple[str, int]
NOT_CLEAN: Final = -1


class BrokerDisk:
    """The disk of one broker. `directories`: their ids; the first one has the metadata log. `logs`: the readable logs,
    by topic name and index."""

    def __init__(self, broker_id: int, directories: int) -> None:
        self._next_id = (broker_id << 64) + 999_999
        self.directories = [self._new_id() for _ in range(directories)]
        self.logs: dict[Name, ReplicaLog] = {}
        self._homes: dict[Name, UUID] = {}
        self._clean: dict[UUID, int] = {}
        self._failed: dict[UUID, dict[Name, ReplicaLog]] = {}
        self._duplicates: dict[Name, tuple[UUID, ReplicaLog]] = {}

    def _new_id(self) -> UUID:
        self._next_id += 1
        return UUID(int=self._next_id)

    @property
    def online(self) -> list[UUID]:
        return [each for each in self.directories if each not in self._failed]

    def home(self, name: Name) -> UUID | None:
        """Directory of a log, as this process knows it; None when it has no such log."""
        return self._homes.get(name)

    def found(self, name: Name) -> ReplicaLog | None:
        """Return the log, even from a failed directory: that may come back."""
        return self.logs.get(name) or next((logs[name] for logs in self._failed.values() if name in logs), None)

    def is_offline(self, name: Name) -> bool:
        """Return whether the log's directory failed under this process, whatever the metadata says."""
        return self._homes.get(name) in self._failed

    def may_be_offline(self, directory: UUID) -> bool:
        """Return whether a log may lie in a failed directory. `directory` is the replica's directory in the
        metadata."""
        return bool(self._failed) and directory != UNASSIGNED_DIRECTORY and directory not in self.online

    def open(self, topic: str, index: int, topic_id: UUID) -> ReplicaLog:
        """Return the log. A missing log is created in the directory with the fewest logs. The log of an earlier topic
        with that name is removed first."""
        name = topic, index
        log = self.logs.get(name)
        if log is None or not self.is_of(log, topic_id):
            log = self.logs[name] = ReplicaLog(topic_id)
            taken = list(self._homes.values())
            self._homes[name] = min(self.online, key=taken.count)
        return log

    @staticmethod
    def is_of(log: ReplicaLog, topic_id: UUID) -> bool:
        return log.topic_id == topic_id

    def remove(self, name: Name) -> None:
        """Remove the log. A log in a failed directory stays there."""
        self.logs.pop(name, None)
        self._homes.pop(name, None)

    def settle(self, name: Name, topic_id: UUID, directory: UUID) -> None:
        """Keep one of two logs of a partition: the log of that topic in that directory. If the metadata does not name
        the directory, keep the log that was created while the other was offline."""
        if name in self._duplicates:
            home, log = self._duplicates.pop(name)
            if self.is_of(log, topic_id) and (home == directory or not self.is_of(self.logs[name], topic_id)):
                self.logs[name], self._homes[name] = log, home

    # --- stops --------------------------------------------------------------------------------------------------------

    @property
    def clean_epoch(self) -> int:
        """Broker epoch of a clean stop; -1 when not every directory has the mark of one."""
        if self._failed:
            return NOT_CLEAN
        return min(self._clean.get(each, NOT_CLEAN) for each in self.directories)

    def close(self, broker_epoch: int) -> None:
        """Stop cleanly: flush the logs and mark the directories that can be written."""
        for log in self.logs.values():
            log.flush()
            log.saved_high_watermark = log.high_watermark
        self._clean = dict.fromkeys(self.online, broker_epoch)

    def lose_power(self, random: Random) -> int:
        return sum(log.lose_power(random) for log in self.logs.values())

    def reopen(self) -> int:
        """Reopen the logs for a new process. Return the epoch of the clean stop before, and remove its mark."""
        for log in self.logs.values():
            log.reopen()
        epoch = self.clean_epoch
        self._clean.clear()
        self._homes = {name: home for name, home in self._homes.items() if home in self.online}
        return epoch

    # --- failed directories -------------------------------------------------------------------------------------------

    def fail(self, directory: UUID) -> list[Name]:
        """Make a directory unreadable and unwritable; return the names of its logs."""
        names = [name for name, home in self._homes.items() if home == directory]
        self._failed[directory] = {name: self.logs.pop(name) for name in names}
        for name in names:
            self._failed[directory][name].is_offline = True
        return names

    def repair(self, random: Random, *, replace: bool) -> int:
        """Repair the failed directories while no process runs. They have what the disk had, or new ones replace them.
        Return the number of lost batches."""
        lost = 0
        for directory, logs in self._failed.items():
            if replace:
                lost += sum(len(log.batches) for log in logs.values())
                self.directories[self.directories.index(directory)] = self._new_id()
                continue
            for name, log in logs.items():
                log.is_offline = False
                lost += log.lose_power(random)
                log.reopen()
                if name in self.logs:
                    self._duplicates[name] = directory, log
                else:
                    self.logs[name], self._homes[name] = log, directory
        self._failed.clear()
        return lost
