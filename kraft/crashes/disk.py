"""Model of a file system after a crash: a replayed trace, split into durable and not yet durable operations.

The model is harsher than ext4 with its default options; docs/internals/crash-kit.md states its rules. A `Disk`
accepts the events of a `kraft_native.file.faults.Trace` one by one. At any point `Disk.state(choice)` returns the files
that remain when the machine stops there. `choice` says which of the unflushed operations the disk kept.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from kraft_native.file.faults import Event

SECTOR_BYTES = 512

Span = tuple[int, int]


class Content(NamedTuple):
    """Content of a file: `data` without its trailing zeros, and the file's size."""

    data: bytes
    size: int


EMPTY = Content(b"", 0)


class FileOp(NamedTuple):
    """Operation on a file's content that no flush covers yet."""

    kind: str       # write, truncate, allocate
    offset: int     # of a truncate: the new size
    data: bytes
    size: int       # of an allocate: how many bytes


class FileChoice(NamedTuple):
    """The part of one file's unflushed operations that is kept.

    `sizes`: the file's metadata holds the size after this many operations. `spans`: for each operation, the byte
    ranges of its data that reached the disk; () if none did.
    """

    sizes: int
    spans: tuple[tuple[Span, ...], ...]


class NameOp(NamedTuple):
    """Change of directory entries that no directory flush covers yet. Either all of its steps happen or none."""

    directories: tuple[str, ...]
    steps: tuple[tuple[str, str, int], ...]     # ("link", path, inode), ("unlink", path, -1), ("mkdir", path, -1)


class Choice(NamedTuple):
    """Everything unflushed that is kept: by inode (absent: all of it), and the kept name operations."""

    files: dict[int, FileChoice]
    names: tuple[int, ...]


@dataclass(slots=True)
class Inode:
    durable: Content = EMPTY
    pending: list[FileOp] = field(default_factory=list)
    settled: int = 0                # operations made durable so far: the position of pending[0]
    whole: FileChoice | None = None     # cache of `keep_all`


@dataclass(frozen=True, slots=True)
class State:
    """Files and directories that a crash left, by path relative to the traced directory."""

    files: dict[str, Content]
    directories: frozenset[str]

    def key(self) -> bytes:
        digest = blake2b(digest_size=16)
        for path in sorted(self.directories):
            digest.update(b"d%s\0" % path.encode())
        for path, content in sorted(self.files.items()):
            digest.update(b"f%s\0%d %d\0" % (path.encode(), content.size, len(content.data)))
            digest.update(content.data)
        return digest.digest()

    def write_to(self, top: Path) -> None:
        """Write the state into an empty directory."""
        for path in sorted(self.directories):
            (top / path).mkdir(exist_ok=True)
        for path, content in self.files.items():
            fd = os.open(top / path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            if content.data:
                os.write(fd, content.data)
            if content.size != len(content.data):
                os.ftruncate(fd, content.size)
            os.close(fd)


def trimmed(data: bytes | bytearray, size: int) -> Content:
    return Content(bytes(data[:size]).rstrip(b"\0"), size)


def keep_all(ops: list[FileOp]) -> FileChoice:
    return FileChoice(len(ops), tuple(((0, len(op.data)),) if op.data else () for op in ops))


def apply(base: Content, ops: list[FileOp], choice: FileChoice) -> Content:
    """Return the file that results from `base` and the operations in `ops` that `choice` keeps, in order.

    Data past the surviving size is lost. A size that survives without its data leaves a hole of zeros.
    """
    data, size = bytearray(base.data), base.size
    for number, op in enumerate(ops):
        size_kept = number < choice.sizes
        if op.kind == "write":
            for start, end in choice.spans[number]:
                if len(data) < op.offset + end:
                    data.extend(bytes(op.offset + end - len(data)))
                data[op.offset + start:op.offset + end] = op.data[start:end]
            if size_kept:
                size = max(size, op.offset + len(op.data))
        elif op.kind == "truncate":
            if size_kept:
                del data[op.offset:]
                size = op.offset
        elif size_kept:
            size = max(size, op.offset + op.size)
    return trimmed(data, size)


class Disk:
    """A traced directory, replayed. Paths are relative to `top`; events outside of it are ignored."""

    def __init__(self, top: str | os.PathLike[str]):
        self.top = os.fspath(top)
        self.inodes: list[Inode] = []
        self.durable_names: dict[str, int] = {}
        self.durable_directories: set[str] = set()
        self.names: dict[str, int] = {}             # as running processes see them
        self.directories: set[str] = set()
        self.name_ops: list[NameOp] = []
        self.descriptors: dict[int, int] = {}
        self.file_flushes: dict[tuple[int, int], int] = {}              # (inode, thread): operations covered
        self.name_flushes: dict[tuple[str, int], list[NameOp]] = {}     # (directory, thread): operations covered

    def load(self, top: str | os.PathLike[str]) -> None:
        """Load the content of a directory as durable: the state before the trace began."""
        for parent, directories, files in os.walk(top):
            for name in directories:
                self.durable_directories.add(os.path.relpath(os.path.join(parent, name), top))
            for name in files:
                path = os.path.join(parent, name)
                data = Path(path).read_bytes()
                self.durable_names[os.path.relpath(path, top)] = len(self.inodes)
                self.inodes.append(Inode(durable=trimmed(data, len(data))))
        self.names = dict(self.durable_names)
        self.directories = set(self.durable_directories)

    @classmethod
    def holding(cls, state: "State", top: str | os.PathLike[str]) -> "Disk":
        """Return a disk on which a state is durable: the disk that a restarted machine finds."""
        disk = cls(top)
        for path, content in state.files.items():
            disk.durable_names[path] = len(disk.inodes)
            disk.inodes.append(Inode(durable=content))
        disk.durable_directories = set(state.directories)
        disk.names, disk.directories = dict(disk.durable_names), set(state.directories)
        return disk

    def relative(self, path: str) -> str:
        return os.path.relpath(path.removesuffix(" (deleted)"), self.top)

    def inode_of(self, event: Event) -> int:
        if event.fd not in self.descriptors:
            self.descriptors[event.fd] = self.names[self.relative(event.path)]      # opened before the trace began
        return self.descriptors[event.fd]

    def feed(self, event: Event) -> bool:
        """Apply one event. Return whether a crash after it may leave another state than a crash before it."""
        if event.error or event.kind == "mark":
            return False
        return bool(getattr(self, f"feed_{event.kind}")(event))

    def feed_open(self, event: Event) -> bool:
        path = self.relative(event.path)
        if event.created:
            self.inodes.append(Inode())
            self.names[path] = len(self.inodes) - 1
            self.add_name_op(("link", path, len(self.inodes) - 1))
        elif path not in self.names:
            return False                            # a directory, or a file outside
        self.descriptors[event.fd] = self.names[path]
        if event.flags & os.O_TRUNC and not event.created:
            self.add_file_op(self.names[path], FileOp("truncate", 0, b"", 0))
            return True
        return bool(event.created)

    def feed_close(self, event: Event) -> bool:
        self.descriptors.pop(event.fd, None)
        return False

    def add_file_op(self, inode: int, op: FileOp) -> None:
        self.inodes[inode].pending.append(op)

    def feed_write(self, event: Event) -> bool:
        self.add_file_op(self.inode_of(event), FileOp("write", event.offset, event.data, 0))
        return True

    def feed_truncate(self, event: Event) -> bool:
        self.add_file_op(self.inode_of(event), FileOp("truncate", event.offset, b"", 0))
        return True

    def feed_allocate(self, event: Event) -> bool:
        self.add_file_op(self.inode_of(event), FileOp("allocate", event.offset, b"", event.size))
        return True

    def feed_sync(self, event: Event) -> bool:
        inode = self.inode_of(event)
        file = self.inodes[inode]
        token = (inode, event.thread)
        if event.begun:
            self.file_flushes[token] = file.settled + len(file.pending)
            return False
        covered = self.file_flushes.pop(token) - file.settled
        if covered <= 0:
            return False
        ops = file.pending[:covered]
        file.durable = apply(file.durable, ops, keep_all(ops))
        del file.pending[:covered]
        file.settled += covered
        return True

    feed_datasync = feed_sync

    def add_name_op(self, *steps: tuple[str, str, int]) -> None:
        directories = tuple({os.path.dirname(path) for _, path, _ in steps})
        self.name_ops.append(NameOp(directories, steps))

    def feed_rename(self, event: Event) -> bool:
        source, target = self.relative(event.path), self.relative(event.target)
        if source not in self.names:
            raise AssertionError(f"rename of a directory or an unknown file is not modelled: {event!r}")
        inode = self.names.pop(source)
        self.names[target] = inode
        self.add_name_op(("unlink", source, -1), ("link", target, inode))
        return True

    def feed_unlink(self, event: Event) -> bool:
        path = self.relative(event.path)
        self.names.pop(path, None)
        self.add_name_op(("unlink", path, -1))
        return True

    def feed_mkdir(self, event: Event) -> bool:
        path = self.relative(event.path)
        self.directories.add(path)
        self.add_name_op(("mkdir", path, -1))
        return True

    def feed_sync_directory(self, event: Event) -> bool:
        path = self.relative(event.path)
        path = "" if path == "." else path
        token = (path, event.thread)
        if event.begun:
            self.name_flushes[token] = [op for op in self.name_ops if path in op.directories]
            return False
        covered = self.name_flushes.pop(token)
        for op in covered:
            take_steps(op, self.durable_names, self.durable_directories)
        self.name_ops = [op for op in self.name_ops if not any(op is done for done in covered)]
        return bool(covered)

    def pending_files(self) -> Iterator[int]:
        """Return inodes that have unflushed operations and for which a crash might leave a name."""
        named = set(self.durable_names.values())
        named.update(inode for op in self.name_ops for kind, _, inode in op.steps if kind == "link")
        return (inode for inode in sorted(named) if self.inodes[inode].pending)

    def all_names(self) -> tuple[int, ...]:
        return tuple(range(len(self.name_ops)))

    def state(self, choice: Choice) -> State:
        names, directories = dict(self.durable_names), set(self.durable_directories)
        for number in choice.names:
            take_steps(self.name_ops[number], names, directories)
        files: dict[str, Content] = {}
        for path, inode in names.items():
            parent = os.path.dirname(path)
            if parent and parent not in directories:
                continue
            file = self.inodes[inode]
            files[path] = apply(file.durable, file.pending, choice.files.get(inode) or keep_all(file.pending))
        return State(files, frozenset(directories))


def take_steps(op: NameOp, names: dict[str, int], directories: set[str]) -> None:
    for kind, path, inode in op.steps:
        if kind == "link":
            names[path] = inode
        elif kind == "unlink":
            names.pop(path, None)
        else:
            directories.add(path)
