"""Owner of a log, built from plain file writes and a live page, that performs random operations; and the checks of
its readers.

Every record's value is `content(offset, generation)`, and a truncation begins a new generation. A reader can
therefore distinguish bytes of different times. Now and then the owner appends records behind the high watermark,
marked as hidden, and cuts them off again: no reader may ever see one.

`python -m tests.native.live_owner files|log DIRECTORY SEED STEPS` prints "ready". After every `PAUSE` steps it prints
a line and waits for one on its input. It closes at the end and prints "closed".
"""

import hashlib
import os
import random
import sys
from pathlib import Path
from typing import Any

from kraft_native.batch.records import BatchBuilder, records
from kraft_native.facade.log import Log
from kraft_native.log.live import LivePage
from kraft_native.segment.checkpoints import LogState, write_log_state
from kraft_native.segment.config import LogConfig

HIDDEN = -1
PAUSE = 50


def content(offset: int, generation: int) -> bytes:
    """Return the value of the record at `offset`: its own name, and bytes derived from it."""
    seed = hashlib.sha256(b"%d/%d" % (offset, generation)).digest()
    return b"%d/%d/" % (offset, generation) + seed * (1 + seed[0] % 8)


def check_slice(piece: object, offset: int) -> list[tuple[int, int]]:
    """Return (offset, generation) of the records in a slice. Raises AssertionError when any of them is not a visible
    record of an owner."""
    found = []
    last = -1
    for record in records(piece):
        name = record.value.split(b"/", 2)
        offset, generation = int(name[0]), int(name[1])
        assert offset == record.offset, (offset, record.offset)
        assert generation != HIDDEN, f"offset {offset} was never visible"
        assert record.value == content(offset, generation), f"offset {offset}"
        assert generation >= last, f"offset {offset}: generation {generation} behind {last}"
        last = generation
        found.append((offset, generation))
    assert found or offset >= 0
    return found


class Owner:
    """Owner with an unlimited number of segments, an offset index that lags behind, and a live page."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.random = random.Random(seed)
        self.generation = 1
        self.page = LivePage(directory)
        self.batches: list[tuple[int, int, int, int]] = []  # (segment base, position, first offset, end offset)
        self.log_start = self.log_end = self.high_watermark = self.gaps_end = 0
        self.note()
        self.new_segment(0)
        self.publish()
        self.page.end_truncation()

    def path(self, base: int, suffix: str = ".log") -> Path:
        return self.directory / f"{base:020d}{suffix}"

    def new_segment(self, base: int) -> None:
        self.base, self.size = base, 0
        self.file = self.path(base).open("wb", buffering=0)
        self.index = self.path(base, ".index").open("wb", buffering=0)
        self.pending_index: list[bytes] = []

    def publish(self) -> None:
        self.page.publish(self.log_start, self.high_watermark, self.high_watermark, self.log_end, self.base, self.size)

    def note(self, *, clean: bool = False) -> None:
        """Write the state file, which a reader without an owner needs, and one with an owner when offsets are
        missing."""
        write_log_state(self.directory, LogState(self.log_start, 0, self.log_end if clean else -1, clean,
                                                 {"gaps_end": str(self.gaps_end)}))

    def append(self, *, hidden: bool = False) -> None:
        count = self.random.randint(1, 20)
        builder = BatchBuilder(self.random.choice(["none", "lz4"]))
        for offset in range(self.log_end, self.log_end + count):
            builder.append(content(offset, HIDDEN if hidden else self.generation), timestamp_ms=1000 + offset)
        data = builder.build(self.log_end)
        # First write rubbish, as if the write were still in progress: readers must not read these bytes yet.
        os.pwrite(self.file.fileno(), self.random.randbytes(len(data) + 100), self.size)
        os.pwrite(self.file.fileno(), data, self.size)
        self.batches.append((self.base, self.size, self.log_end, self.log_end + count))
        if self.size:
            entry = (self.log_end + count - 1 - self.base).to_bytes(4, "big") + self.size.to_bytes(4, "big")
            self.pending_index.append(entry)
        if self.random.random() < 0.2:
            self.write_index()
        self.size += len(data)
        self.log_end += count
        if not hidden:
            self.high_watermark = self.log_end
        self.publish()

    def write_index(self) -> None:
        self.index.write(b"".join(self.pending_index))
        self.pending_index.clear()

    def roll(self) -> None:
        if not self.size:
            return
        self.page.segments_changed()
        self.file.truncate(self.size)
        self.write_index()
        self.close_files()
        self.new_segment(self.log_end)
        self.publish()
        self.page.segments_changed()

    def close_files(self) -> None:
        self.file.close()
        self.index.close()

    def truncate(self) -> None:
        """Drop some of the last batches, whole segments among them, and begin a new generation."""
        victims = self.batches[-self.random.randint(1, 8):]
        if not victims or victims[0][2] < self.log_start:
            return
        self.cut(len(victims))

    def cut(self, count: int) -> None:
        base, position, first, _ = self.batches[-count]
        self.page.begin_truncation()
        dropped = [int(path.stem) for path in self.directory.glob("*.log")]      # compaction leaves empty segments, too
        del self.batches[-count:]
        self.generation += 1
        self.close_files()
        for each in sorted(dropped):
            if each > base:
                self.path(each).unlink()
                self.path(each, ".index").unlink()
        self.base, self.size, self.log_end = base, position, first
        self.high_watermark = min(self.high_watermark, first)
        self.file = self.path(base).open("r+b", buffering=0)
        self.file.truncate(position)
        self.path(base, ".index").write_bytes(b"")
        self.index = self.path(base, ".index").open("wb", buffering=0)
        self.pending_index = []
        self.publish()
        self.page.end_truncation()

    def hide_and_cut(self) -> None:
        count = self.random.randint(1, 3)
        for _ in range(count):
            self.append(hidden=True)
        self.cut(count)

    def delete_oldest(self) -> None:
        bases = sorted({batch[0] for batch in self.batches} | {self.base})
        if len(bases) < 8:
            return
        self.log_start = bases[1]
        self.note()
        self.publish()
        self.page.segments_changed()
        self.path(bases[0]).unlink()
        self.path(bases[0], ".index").unlink()
        self.batches = [batch for batch in self.batches if batch[0] != bases[0]]
        self.page.segments_changed()

    def move_log_start(self) -> None:
        if self.batches:
            self.log_start = max(self.log_start, self.random.choice(self.batches[: len(self.batches) // 8 + 1])[2])
            self.note()
            self.publish()

    def compact(self) -> None:
        """Rewrite a sealed segment without its first batch, under the same name. Note first that offsets may be
        missing from then on."""
        bases = sorted({batch[0] for batch in self.batches} - {self.base})
        if not bases:
            return
        base = self.random.choice(bases)
        self.gaps_end = max(self.gaps_end, min([*(other for other in bases if other > base), self.base]))
        self.note()
        inside = [batch for batch in self.batches if batch[0] == base]
        data = self.path(base).read_bytes()
        kept = inside[1:]
        begin = kept[0][1] if kept else len(data)
        self.path(base, ".swap").write_bytes(data[begin:])
        self.page.segments_changed()
        self.path(base, ".swap").rename(self.path(base))
        self.path(base, ".index").write_bytes(b"")
        self.batches = [batch for batch in self.batches if batch[0] != base or batch in kept]
        self.batches = [(b, p - begin if b == base else p, first, end) for b, p, first, end in self.batches]
        self.page.segments_changed()

    def step(self) -> None:
        actions = [self.append] * 16 + [self.roll] * 3 + [self.truncate] * 2 + [self.hide_and_cut] * 2
        actions += [self.compact] if self.random.random() < 0.5 else [self.delete_oldest, self.move_log_start]
        self.random.choice(actions)()

    def close(self) -> None:
        self.write_index()
        self.file.truncate(self.size)
        self.close_files()
        self.note(clean=True)
        self.page.close()


class LogOwner:
    """The same operations through the engine's own log."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.generation = 1
        self.log = Log(directory, LogConfig(segment_bytes=20_000, index_interval_bytes=500, high_watermark="manual",
                                            message_timestamp_before_max_ms=1 << 62))
        self.starts: list[int] = []  # first offsets of batches above the log start

    @property
    def log_start(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end(self) -> int:
        return self.log.log_end_offset

    def append(self, *, hidden: bool = False) -> None:
        builder = BatchBuilder(self.random.choice(["none", "lz4"]))
        for offset in range(self.log_end, self.log_end + self.random.randint(1, 20)):
            builder.append(content(offset, HIDDEN if hidden else self.generation), timestamp_ms=1000 + offset)
        self.starts.append(self.log_end)
        self.log.append(builder.build())
        if not hidden:
            self.log.set_high_watermark(self.log_end)

    def cut(self, offset: int) -> None:
        self.generation += 1
        self.log.truncate_to(offset)
        self.starts = [start for start in self.starts if start < offset]

    def truncate(self) -> None:
        if self.starts:
            self.cut(self.random.choice(self.starts[-8:]))

    def hide_and_cut(self) -> None:
        visible = self.log_end
        for _ in range(self.random.randint(1, 3)):
            self.append(hidden=True)
        self.cut(visible)

    def delete_records(self) -> None:
        if len(self.starts) > 60:
            before = self.random.choice(self.starts[:20])
            self.log.delete_records(before)
            self.starts = [start for start in self.starts if start >= before]

    def step(self) -> None:
        actions = [self.append] * 20 + [self.truncate] * 2 + [self.hide_and_cut] * 2
        actions += [self.log.roll, self.delete_records]
        self.random.choice(actions)()

    def close(self) -> None:
        self.log.close()


def main(kind: str, directory: str, seed: str, steps: str) -> None:
    kinds: dict[str, Any] = {"files": Owner, "log": LogOwner}
    owner = kinds[kind](Path(directory), int(seed))
    print("ready", flush=True)
    for number in range(int(steps)):
        owner.step()
        if number % PAUSE == PAUSE - 1:
            print(number, owner.log_start, owner.log_end, flush=True)
            if not sys.stdin.readline():
                break
    owner.close()
    print("closed", owner.log_start, owner.log_end, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
