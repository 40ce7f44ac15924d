"""Directory of Parquet files to which ranges of logs are added, each exactly once.

    <table>/topic=orders/day=2026-11-22/hour=03/...parquet     the files for any reader of Parquet
    <table>/_kraft/table.json                                  the settings of the table; never changes
    <table>/_kraft/commits/<number, 20 digits>.json            what each commit added and removed
    <table>/_kraft/staging/<run>/...                           files that are in no commit yet

A commit is the only decision: a file of its number, with a name that only one writer can create (`link`). Before it,
files lie in the staging directory, which readers ignore. After it, they are moved to their places; if a run crashes
before the move, the next run moves them. So a file is visible only when its commit exists. A run that crashed before
its commit leaves only files that the next run removes.

Each commit names the ranges of offsets that it added, and the resulting end of every partition, where the next commit
begins. It also names its origin, as (query id, batch id): the same batch again is recognized and changes nothing.
"""

import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

from kraft.log_dir import TopicPartition
from kraft_native.base.errors import InvalidArgumentError, KraftError
from kraft_native.file import file_io

FORMAT = 1
PRIVATE = "_kraft"
DIGITS = 20


class TableError(KraftError):
    """The table cannot accept an addition; nothing was changed."""


class DataFile(NamedTuple):
    """One Parquet file. `path` is its place in the table, `staged` the place where it was written, both relative to the
    table."""

    path: str
    staged: str
    rows: int
    size_bytes: int


class Span(NamedTuple):
    """Offsets [start, end) of one partition. `lost`: the number of offsets at its start that could not be read any
    more."""

    topic: str
    partition: int
    start: int
    end: int
    lost: int = 0

    @property
    def name(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit: its origin, its added and replaced files, the end of every partition of the table after it, and the
    topics' ids, where they have one."""

    number: int
    query_id: str
    batch_id: int
    spans: tuple[Span, ...]
    files: tuple[DataFile, ...]
    removed: tuple[str, ...]
    ends: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]

    def text(self) -> str:
        fields = {**asdict(self), "spans": [span._asdict() for span in self.spans],
                  "files": [file._asdict() for file in self.files],
                  "ends": [[*name, end] for name, end in sorted(self.ends.items())]}
        return json.dumps({"format": FORMAT, **fields}, indent=1) + "\n"

    @classmethod
    def read(cls, path: Path) -> Self:
        found = json.loads(path.read_text())
        if found.pop("format") != FORMAT:
            raise TableError(f"{path}: made by a newer release")
        return cls(**{**found, "spans": tuple(Span(**span) for span in found["spans"]),
                      "files": tuple(DataFile(**file) for file in found["files"]), "removed": tuple(found["removed"]),
                      "ends": {TopicPartition(topic, partition): end for topic, partition, end in found["ends"]}})


@dataclass(slots=True)
class Table:
    """Table, open for one writer; readers use `commits` and `live_files` without opening. A context manager.

    `settings` defines the format of the files (layout, decoder, ...): those of an existing table must be equal.
    `register` announces a commit to others when its files are in their places, before the replaced ones are removed; it
    may be called again. `TableError` when another process on this machine has the table open.
    """

    path: Path
    settings: Mapping[str, Any]
    register: Callable[[Commit], None] | None = None
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    _lock: file_io.FileLock | None = None

    def __enter__(self) -> Self:
        for directory in (self.path, self.path / PRIVATE, self.path / PRIVATE / "commits", self.staging):
            if not directory.is_dir():
                directory.mkdir(parents=True)
                file_io.sync_directory(directory.parent)
        self._lock = file_io.FileLock(self.path / PRIVATE / "lock")
        if not self._lock.acquired:
            raise TableError(f"{self.path}: another process is writing to this table")
        try:
            self._settle_settings()
            self.recover()
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        if self._lock is not None:
            self._lock.release()

    @property
    def staging(self) -> Path:
        """Directory in which files of this run are written."""
        return self.path / PRIVATE / "staging" / self.run_id

    def _settle_settings(self) -> None:
        path = self.path / PRIVATE / "table.json"
        if not path.exists():
            if any(commit_files(self.path)):
                raise TableError(f"{path} is missing, although there are commits")
            file_io.write_atomic(path, (json.dumps({"format": FORMAT, **self.settings}, indent=1) + "\n").encode())
        found = json.loads(path.read_text())
        for name, wanted in self.settings.items():
            if found.get(name) != wanted:
                raise TableError(f"{self.path}: made with {name} {found.get(name)!r}, which stays; given: {wanted!r}")

    def recover(self) -> None:
        """Finish moves of an earlier run's commits, and remove files that it did not commit."""
        for number in range(_published(self.path) + 1, len(commit_files(self.path))):
            self._publish(Commit.read(_commit_path(self.path, number)))
        staging = self.path / PRIVATE / "staging"
        for directory in staging.iterdir():
            if directory.name != self.run_id:
                for file in directory.iterdir():
                    file.unlink()
                directory.rmdir()

    def last(self) -> Commit | None:
        """Return the last commit, None before the first."""
        count = len(commit_files(self.path))
        return Commit.read(_commit_path(self.path, count - 1)) if count else None

    def made_by(self, query_id: str, batch_id: int) -> Commit | None:
        """Return the commit of a batch, if it exists. Batch ids of a query rise, so the search goes back only as far as
        needed."""
        for number in range(len(commit_files(self.path)) - 1, -1, -1):
            found = Commit.read(_commit_path(self.path, number))
            if found.query_id == query_id:
                if found.batch_id == batch_id:
                    return found
                if found.batch_id < batch_id:
                    return None
        return None

    def commit(self, spans: Iterable[Span], files: Iterable[DataFile], *, query_id: str, batch_id: int,
               removed: Sequence[str] = (), topic_ids: Mapping[str, str] | None = None) -> Commit:
        """Add the files, which hold exactly the spans, and remove `removed`. The same batch again changes nothing.

        Raises `TableError` when a span does not begin where its partition ends, or another writer commits meanwhile.
        """
        if (commit := self.made_by(query_id, batch_id)) is not None:
            return commit
        before = self.last()
        ends = {} if before is None else dict(before.ends)
        spans = tuple(sorted(spans))
        for span in spans:
            if ends.get(span.name, span.start) != span.start:
                raise TableError(f"{self.path}: {span.topic}-{span.partition} ends at offset {ends[span.name]}; what "
                                 f"was to be added begins at {span.start}")
            ends[span.name] = span.end
        number = 0 if before is None else before.number + 1
        ids = {**({} if before is None else before.topic_ids), **(topic_ids or {})}
        commit = Commit(number, query_id, batch_id, spans, tuple(sorted(files)), tuple(removed), ends, ids)
        self._decide(commit)
        self._publish(commit)
        return commit

    def _decide(self, commit: Commit) -> None:
        """Make the commit final; it is durable once this returns."""
        path = _commit_path(self.path, commit.number)
        written = self.staging / f"{commit.number}.json"
        file_io.sync_directory(self.staging)
        file_io.write_atomic(written, commit.text().encode())
        try:
            os.link(written, path)
        except FileExistsError:
            raise TableError(f"{self.path}: somebody else has made commit {commit.number}") from None
        file_io.sync_directory(path.parent)
        written.unlink()

    def _publish(self, commit: Commit) -> None:
        """Move the files to their places, and remove those that they replace. May be repeated."""
        directories = set()
        for file in commit.files:
            staged, target = self.path / file.staged, self.path / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            if staged.exists():
                file_io.rename(staged, target)
            elif not target.exists():
                raise TableError(f"{target}: committed, but neither there nor in {staged}")
            directories.add(target.parent)
        if self.register is not None:
            self.register(commit)
        for name in commit.removed:
            file_io.unlink(self.path / name, missing_ok=True)
            directories.add((self.path / name).parent)
        for directory in {above for each in directories for above in (each, *each.parents)
                          if above.is_relative_to(self.path) and above.is_dir()}:
            file_io.sync_directory(directory)
        file_io.write_atomic(self.path / PRIVATE / "published", b"%d\n" % commit.number)


def commit_files(table: Path) -> list[Path]:
    """Return the commits' files, oldest first; their numbers count from 0 without a gap."""
    directory = table / PRIVATE / "commits"
    return sorted(directory.glob("[0-9]*.json")) if directory.is_dir() else []


def commits(table: Path) -> Iterator[Commit]:
    """Return all commits, oldest first."""
    return (Commit.read(path) for path in commit_files(table))


def live_files(table: Path) -> list[DataFile]:
    """Return the files of the current table: a consistent view, whatever a writer does meanwhile."""
    found: dict[str, DataFile] = {}
    for commit in commits(table):
        found.update({file.path: file for file in commit.files})
        for name in commit.removed:
            found.pop(name, None)
    return list(found.values())


def covered(table: Path) -> dict[TopicPartition, Span]:
    """Return the offsets of each partition that the table has, as one span each. `TableError` for a gap or an
    overlap."""
    found: dict[TopicPartition, Span] = {}
    for commit in commits(table):
        for span in commit.spans:
            before = found.get(span.name)
            if before is not None and before.end != span.start:
                raise TableError(f"{table}: commit {commit.number} adds {span.topic}-{span.partition} from offset "
                                 f"{span.start}, but it ended at {before.end}")
            found[span.name] = span if before is None else replace_end(before, span)
    return found


def replace_end(before: Span, after: Span) -> Span:
    """Return both spans as one."""
    return before._replace(end=after.end, lost=before.lost + after.lost)


def _commit_path(table: Path, number: int) -> Path:
    return table / PRIVATE / "commits" / f"{number:0{DIGITS}d}.json"


def _published(table: Path) -> int:
    """Return the number of the last commit whose files are known to be in their places, -1 when none is."""
    path = table / PRIVATE / "published"
    return int(path.read_text()) if path.exists() else -1


def check_table(path: Path) -> None:
    """Refuse with `InvalidArgumentError` a path that cannot become a table."""
    if path.exists() and not path.is_dir():
        raise InvalidArgumentError(f"{path} is not a directory")
    if path.is_dir() and not (path / PRIVATE).is_dir() and any(path.iterdir()):
        raise InvalidArgumentError(f"{path} is not empty, and not a table of kraft's")
