"""Small logs in Python to test the kit itself: a correct one, and wrong ones that the kit must catch.

The format: segments `<base offset>.log` of record batches, and a text file `start` with the log start. Every file
operation goes through the engine's own `file_io`, so that a trace records it.
"""

import ctypes
import os
from pathlib import Path

from kraft.crashes.disk import State
from kraft_native.base.crc import checksum
from kraft_native.base.errors import StorageError
from kraft_native.batch.batch import (
    ATTRIBUTES_AT,
    BASE_TIMESTAMP_AT,
    CRC_AT,
    HEADER_BYTES,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    LENGTH_AT,
    OVERHEAD_BYTES,
)
from kraft_native.file import file_io

from .promises import Batch, Observed

NATIVE = ctypes.CDLL(file_io.__file__)
NATIVE.kf_pwrite.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int64)
NATIVE.kf_truncate.argtypes = (ctypes.c_int, ctypes.c_int64)
SEGMENT_BYTES = 2_000

FLAWS = {
    "acknowledges before the flush": "per-append answers without fdatasync",
    "forgets the directory": "a new segment's name is not flushed",
    "forgets the sealed segment": "flush() flushes only the newest segment",
    "renames without flush": "the start file is renamed into place before its content is durable",
    "deletes before it notes": "segments are removed before the new start is written",
    "trusts the tail": "recovery takes whatever has a plausible length",
    "appends behind the tear": "recovery leaves torn bytes and appends behind them",
    "cuts without flush": "a truncation is not made durable",
    "skips damage": "recovery drops a damaged batch and continues behind it",
    "ignores failures": "a failed write or flush is acknowledged like any other",
}


def call(result: int, path: Path) -> int:
    if result < 0:
        raise StorageError(os.fspath(path), -result)
    return result


class ReferenceSession:
    """An open reference log. `flaws` switches off parts of its correctness."""

    def __init__(self, directory: Path, durability: str, flaws: frozenset[str]):
        self.directory = directory
        self.durability = durability
        self.flaws = flaws
        self.fd = -1
        self.failed: StorageError | None = None
        self.sealed: list[int] = []             # base offsets, oldest first
        self.dirty: set[int] = set()            # sealed segments that are not flushed yet
        self.batches: dict[int, list[Batch]] = {}
        self.durable = 0
        try:
            self.recover()
        except BaseException:
            self.abandon()
            raise

    # --- opening ----------------------------------------------------------------------------------------------------

    def path(self, base: int) -> Path:
        return self.directory / f"{base:020d}.log"

    def recover(self) -> None:
        """Read all segments, cut the torn end, and drop what lies behind the first damage."""
        start_file = self.directory / "start"
        self.start = int(file_io.read_file(start_file) or b"0") if start_file.exists() else 0
        bases = sorted(int(name.stem) for name in self.directory.glob("*.log"))
        while len(bases) > 1 and bases[1] <= self.start:
            file_io.unlink(self.path(bases.pop(0)))
        if not bases or bases[0] > self.start:
            for base in bases:
                file_io.unlink(self.path(base))
            bases = []
            self.create(self.start)
        self.end = self.start
        for number, base in enumerate(bases):
            if number and base != self.end:
                self.drop(bases[number:])
                break
            if not self.load(base):
                self.drop(bases[number + 1:])
                break
        self.start = min(self.start, self.end)
        if self.fd < 0:
            self.open_newest()
        self.dirty = set(self.batches)
        self.flush_files()

    def load(self, base: int) -> bool:
        """Load a segment. Return False when it ended in damage, which is cut off."""
        data = file_io.read_file(self.path(base))
        at, self.batches[base] = 0, []
        self.end = max(base, self.start) if not self.batches else base
        while at < len(data):
            size = OVERHEAD_BYTES + int.from_bytes(data[at + LENGTH_AT:at + LEADER_EPOCH_AT], "big")
            batch = data[at:at + size]
            sound = len(batch) == size and size >= HEADER_BYTES and (
                batch[CRC_AT:ATTRIBUTES_AT] == checksum(batch[ATTRIBUTES_AT:]).to_bytes(4, "big"))
            if not sound and "trusts the tail" in self.flaws and size >= HEADER_BYTES:
                sound = True
            if not sound and "skips damage" in self.flaws and len(batch) == size >= HEADER_BYTES:
                at += size
                continue
            if not sound or (int.from_bytes(batch[:LENGTH_AT], "big") != self.end and "skips damage" not in self.flaws):
                if "appends behind the tear" not in self.flaws:
                    self.cut(base, at)
                return False
            first = int.from_bytes(batch[:LENGTH_AT], "big")
            self.end = first + int.from_bytes(batch[LAST_OFFSET_DELTA_AT:BASE_TIMESTAMP_AT], "big") + 1
            self.batches[base].append(Batch(first, self.end - 1, batch))
            at += size
        return True

    def drop(self, bases: list[int]) -> None:
        for base in reversed(bases):
            file_io.unlink(self.path(base))
            file_io.sync_directory(self.directory)

    def cut(self, base: int, position: int) -> None:
        fd = call(NATIVE.kf_open(os.fsencode(self.path(base)), os.O_RDWR, 0), self.path(base))
        try:
            call(NATIVE.kf_truncate(fd, position), self.path(base))
            if "cuts without flush" not in self.flaws:
                call(NATIVE.kf_datasync(fd), self.path(base))
        finally:
            NATIVE.kf_close(fd)

    def create(self, base: int) -> None:
        path = self.path(base)
        fd = call(NATIVE.kf_open(os.fsencode(path), os.O_RDWR | os.O_CREAT, 0o644), path)
        self.abandon()
        self.fd = fd
        self.batches[base] = []
        if "forgets the directory" not in self.flaws:
            file_io.sync_directory(self.directory)

    def open_newest(self) -> None:
        self.abandon()
        newest = self.path(max(self.batches))
        self.fd = call(NATIVE.kf_open(os.fsencode(newest), os.O_RDWR, 0), newest)
        self.size = newest.stat().st_size

    # --- writing ----------------------------------------------------------------------------------------------------

    def guarded(self, work) -> None:
        """Run a write or flush; the first failure ends all writing."""
        if self.failed:
            raise self.failed
        try:
            work()
        except StorageError as error:
            if "ignores failures" not in self.flaws:
                self.failed = error
                raise

    def stored(self, batch: bytes, offset: int) -> bytes:
        return offset.to_bytes(8, "big") + batch[LENGTH_AT:]

    def append(self, batch: bytes) -> tuple[int, bytes]:
        stored = self.end.to_bytes(8, "big") + batch[LENGTH_AT:]
        self.guarded(lambda: self.write(stored))
        base, self.end = self.end, self.end + int.from_bytes(stored[LAST_OFFSET_DELTA_AT:BASE_TIMESTAMP_AT], "big") + 1
        self.batches[max(self.batches)].append(Batch(base, self.end - 1, stored))
        if self.durability == "per-append":
            self.durable = self.end
        return base, stored

    def write(self, stored: bytes) -> None:
        newest = max(self.batches)
        self.size = sum(len(batch.data) for batch in self.batches[newest]) if not self.flaws else self.size_of(newest)
        if self.size >= SEGMENT_BYTES:
            self.dirty.add(newest)
            self.create(self.end)
            newest, self.size = self.end, 0
        call(NATIVE.kf_pwrite(self.fd, stored, len(stored), self.size), self.path(newest))
        if self.durability == "per-append" and "acknowledges before the flush" not in self.flaws:
            self.flush_files()

    def size_of(self, base: int) -> int:
        return self.path(base).stat().st_size

    def flush_files(self) -> None:
        for base in sorted(self.dirty - {max(self.batches)}):
            if "forgets the sealed segment" not in self.flaws and base in self.batches:
                self.cut(base, self.size_of(base))
        self.dirty = set()
        call(NATIVE.kf_datasync(self.fd), self.directory)
        if "forgets the directory" not in self.flaws:
            file_io.sync_directory(self.directory)

    def flush(self) -> None:
        self.guarded(self.flush_files)
        if self.durability == "group-commit":
            self.durable = self.end

    wait_durable = flush

    def durable_end(self) -> int:
        return self.durable

    def truncate(self, offset: int) -> int:
        self.guarded(lambda: self.truncate_files(offset))
        return self.end

    def truncate_files(self, offset: int) -> None:
        while len(self.batches) > 1 and max(self.batches) >= offset:
            file_io.unlink(self.path(base := max(self.batches)))
            self.batches.pop(base)
            self.end = base
        newest = max(self.batches)
        left = [batch for batch in self.batches[newest] if batch.last < offset]
        self.cut(newest, sum(len(batch.data) for batch in left))
        self.batches[newest], self.end = left, offset
        if "cuts without flush" not in self.flaws:
            file_io.sync_directory(self.directory)
        self.durable = min(self.durable, offset)
        self.open_newest()

    def delete_records(self, offset: int) -> int:
        self.guarded(lambda: self.delete_files(offset))
        return self.start

    def delete_files(self, offset: int) -> None:
        self.flush_files()      # a durable start past the durable end would leave a log that ends before it starts
        if "deletes before it notes" not in self.flaws:
            self.note_start(offset)
            self.start = offset
        while len(self.batches) > 1 and sorted(self.batches)[1] <= offset:
            file_io.unlink(self.path(base := min(self.batches)))
            self.batches.pop(base)
        if "deletes before it notes" in self.flaws:
            file_io.sync_directory(self.directory)
            self.note_start(offset)
            self.start = offset

    def note_start(self, offset: int) -> None:
        path = self.directory / "start"
        file_io.write_atomic(path, b"%d" % offset, durable="renames without flush" not in self.flaws)
        if "renames without flush" in self.flaws:
            file_io.sync_directory(self.directory)

    def restart_at(self, offset: int) -> None:
        raise AssertionError("the reference log cannot do this")

    # --- reading ----------------------------------------------------------------------------------------------------

    def observe(self) -> Observed:
        batches = [batch for base in sorted(self.batches) for batch in self.batches[base] if batch.last >= self.start]
        return Observed(self.start, self.end, batches)

    def audit(self) -> list[str]:
        return []

    def close(self) -> None:
        try:
            if self.failed is None:
                self.flush_files()
        finally:
            self.abandon()

    def abandon(self) -> None:
        if self.fd >= 0:
            NATIVE.kf_close(self.fd)
        self.fd = -1


class ReferenceLog:
    transactions = True
    checks_epochs = False

    def __init__(self, *flaws: str):
        unknown = set(flaws) - set(FLAWS)
        if unknown:
            raise AssertionError(f"no such flaw: {unknown}")
        self.flaws = frozenset(flaws)
        self.name = "reference" + "".join(f", {flaw}" for flaw in flaws)

    def open(self, directory: Path, durability: str) -> ReferenceSession:
        return ReferenceSession(directory, durability, self.flaws)

    def look(self, directory: Path) -> ReferenceSession:
        return self.open(directory, "page-cache")

    def operations(self) -> dict[str, int]:
        return {"append": 24, "flush": 2, "wait": 2, "truncate": 2, "delete_records": 2, "reopen": 1}

    def ignores(self, path: str) -> bool:
        return False

    def gaps_end(self, state: State) -> int:
        return 0

    def start_files(self) -> tuple[str, ...]:
        return ("start",)

    def ignored_files(self) -> tuple[str, ...]:
        return ()
