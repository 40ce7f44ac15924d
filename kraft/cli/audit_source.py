"""Sources of audit events: files of nodes, with those that they replaced, or the topic of a cluster."""

import heapq
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import IO, Final, Protocol

from kraft.client import Cluster
from kraft.client.audit import AuditPartition, audit_partitions
from kraft.security.audit.reading import Seen, parse

FOLLOW_SECONDS: Final = 0.5
_NUMBERED: Final = re.compile(r".*\.[0-9]+")


class Source(Protocol):
    """Place that events are read from. `unreadable` counts lines that are no events."""

    unreadable: int

    def read(self) -> Iterator[Seen]:
        """Return the events that exist now and were not read yet, in the order of time."""


class FileSource:
    """One file of a node, after the files that it replaced. A file with a number is read alone."""

    def __init__(self, path: Path) -> None:
        self.unreadable = 0
        self._path = path
        self._file: IO[bytes] | None = None
        self._begun = b""

    def read(self) -> Iterator[Seen]:
        """See `Source`. A file that was replaced meanwhile is read to its end first."""
        if self._file is None:
            for older in self._older():
                with older.open("rb") as lines:
                    yield from self._events(lines)
            self._file = self._path.open("rb")
        yield from self._events(self._file)
        if self._was_replaced(self._file):
            yield from self._events(self._file)
            self._file.close()
            self._file = self._path.open("rb")
            yield from self._events(self._file)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _older(self) -> list[Path]:
        if _NUMBERED.fullmatch(self._path.name):
            return []
        found = {int(each.suffix[1:]): each for each in self._path.parent.glob(f"{self._path.name}.*")
                 if _NUMBERED.fullmatch(each.name) and each.stem == self._path.name}
        return [found[number] for number in sorted(found, reverse=True)]

    def _was_replaced(self, file: IO[bytes]) -> bool:
        try:
            return os.fstat(file.fileno()).st_ino != self._path.stat().st_ino
        except FileNotFoundError:          # between the two steps of a replacement
            return False

    def _events(self, lines: IO[bytes]) -> Iterator[Seen]:
        for line in lines:
            whole = self._begun + line
            if not whole.endswith(b"\n"):
                self._begun = whole        # the node is writing it
                continue
            self._begun = b""
            found = parse(whole)
            if found is not None:
                yield found
            elif whole.strip():
                self.unreadable += 1


class TopicSource:
    """One partition of the topic of a cluster."""

    def __init__(self, partition: AuditPartition) -> None:
        self.unreadable = 0
        self._partition = partition

    def read(self) -> Iterator[Seen]:
        """See `Source`."""
        for line in self._partition.read():
            found = parse(line)
            if found is None:
                self.unreadable += 1
            else:
                yield found


def file_sources(opened: ExitStack, paths: Sequence[Path]) -> list[Source]:
    """Return these files, which `opened` closes."""
    sources = [FileSource(path) for path in paths]
    for each in sources:
        opened.callback(each.close)
    return list(sources)


def topic_sources(opened: ExitStack, bootstrap: str, timeout: float, since_ms: int | None = None) -> list[Source]:
    """Return the partitions of the topic of a cluster, each with connections of its own, which `opened` closes. Raises
    `RefusedError` where the cluster has no such topic, and `ConnectionFailedError`."""
    def connected() -> Cluster:
        return opened.enter_context(Cluster(bootstrap, timeout=timeout))

    return [TopicSource(AuditPartition(connected(), each, since_ms)) for each in audit_partitions(connected())]


def merged(sources: Sequence[Source]) -> Iterator[Seen]:
    """Return the events of all sources that exist now."""
    return heapq.merge(*(each.read() for each in sources), key=_time)


def followed(sources: Sequence[Source]) -> Iterator[Seen]:
    """Return the events of all sources, and then those that are added, without end."""
    yield from merged(sources)
    while True:
        time.sleep(FOLLOW_SECONDS)
        yield from chain.from_iterable(each.read() for each in sources)


def _time(seen: Seen) -> int:
    return seen.time_ms
