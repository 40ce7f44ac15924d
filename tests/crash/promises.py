"""Promises that a log must keep after a crash, and the judgement of its content (docs/internals/crash-kit.md).

The history of a workload is a list of versions: the content after each operation. A batch lives from the version that
appended it until the version that cut it off. A crash happens while version `begun` is in progress and version `done`
is acknowledged. `floors` are the promises of durability given until then.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from kraft_native.batch.batch import LEADER_EPOCH_AT, MAGIC_AT, PRODUCER_ID_AT, RECORD_COUNT_AT
from kraft_native.batch.records import records

NEVER = 1 << 62


class Batch(NamedTuple):
    base: int
    last: int
    data: bytes


class Gap(NamedTuple):
    """Offsets that the log reports as not served."""

    first: int
    next: int


class Floor(NamedTuple):
    """Promise that version `version` is not undone by any power loss, and that its batches below offset `end`
    survive."""

    version: int
    end: int


# Marks that a workload writes into the trace.
class Begin(NamedTuple):
    version: int


class Done(NamedTuple):
    version: int


@dataclass(slots=True)
class Life:
    batch: Batch
    born: int
    died: int = NEVER
    rewritten: bool = False     # created by a compaction, not appended


@dataclass(slots=True)
class Observed:
    """Content that an opened log serves."""

    start: int
    end: int
    batches: list[Batch]
    gaps: list[Gap] = field(default_factory=list)


@dataclass(slots=True)
class Progress:
    """Sum of the marks up to a point of the trace."""

    begun: int = 0
    done: int = 0
    floors: tuple[Floor, ...] = ()
    marks: int = 0

    def take(self, mark: object) -> None:
        self.marks += 1
        if isinstance(mark, Begin):
            self.begun = mark.version
        elif isinstance(mark, Done):
            self.done = mark.version
        elif isinstance(mark, Floor):
            left = tuple(f for f in self.floors if not (f.version <= mark.version and f.end <= mark.end))
            self.floors = (*left, mark)

    def copy(self) -> "Progress":
        return Progress(self.begun, self.done, self.floors, self.marks)


class History:
    """Versions of a log's content, by the workload's own model of it. Version 0 is the empty log."""

    def __init__(self) -> None:
        self.lives: list[Life] = []
        self.starts = [0]
        self.ends = [0]
        self.alive: list[Life] = []
        self.by_data: dict[bytes, Life] = {}
        self.restarts: set[int] = set()
        self.compacts = False
        self.unknown_output = False         # a compaction failed: its output may be served, and is not known
        self.appended: dict[int, tuple[bytes | None, bytes | None]] = {}

    @property
    def version(self) -> int:
        return len(self.starts) - 1

    def step(self, start: int, end: int) -> int:
        self.starts.append(start)
        self.ends.append(end)
        return self.version

    def append(self, batches: list[Batch]) -> int:
        version = self.step(self.starts[-1], batches[-1].last + 1)
        for batch in batches:
            if batch.data in self.by_data:
                raise AssertionError("a workload must not append the same bytes twice")
            life = Life(batch, version)
            self.by_data[batch.data] = life
            self.lives.append(life)
            self.appended.update(records_of(batch))
            self.alive.append(life)
        return version

    def truncate(self, offset: int) -> int:
        """Cut off whole batches that reach `offset`; the log ends at `offset`."""
        version = self.version + 1
        while self.alive and self.alive[-1].batch.last >= offset:
            self.alive.pop().died = version
        return self.step(min(self.starts[-1], offset), offset)

    def restart_at(self, offset: int) -> int:
        """Truncate fully and start at `offset`."""
        version = self.version + 1
        for life in self.alive:
            life.died = version
        self.alive = []
        self.restarts.add(version)
        return self.step(offset, offset)

    def compact(self, content: list[Batch]) -> int:
        """Add the version with `content`, the result of a compaction. The replaced batches may be served again after
        a crash."""
        version = self.step(self.starts[-1], self.ends[-1])
        self.compacts = True
        was = {offset: record for life in self.alive for offset, record in records_of(life.batch)}
        self.alive = []
        for batch in content:
            if any(was.get(offset) != record for offset, record in records_of(batch)):
                raise AssertionError(f"the compaction changed a record of batch {batch.base}")
            life = self.by_data.setdefault(batch.data, Life(batch, version, rewritten=True))
            self.alive.append(life)
        return version

    def compact_failed(self) -> int:
        """Add the version after a failed compaction: each group of segments is either unchanged or compacted."""
        self.compacts = self.unknown_output = True
        return self.step(self.starts[-1], self.ends[-1])

    def move_start(self, start: int) -> int:
        return self.step(start, self.ends[-1])

    def content(self) -> list[Batch]:
        """Content that the newest version serves."""
        return [life.batch for life in self.alive if life.batch.last >= self.starts[-1]]


def records_of(batch: Batch) -> list[tuple[int, tuple[bytes | None, bytes | None]]]:
    return [(record.offset, (record.key, record.value)) for record in records(batch.data)]


def judge(history: History, progress: Progress, seen: Observed, *, killed: bool) -> list[str]:
    """Return the promises that `seen` breaks, in words; empty when none. `killed`: the process died, the machine did
    not."""
    floors = (Floor(progress.done, NEVER),) if killed else progress.floors
    oldest = max((floor.version for floor in floors), default=0)
    newest = max(progress.begun, progress.done)
    return [
        *judge_bounds(history, seen, oldest, newest, killed),
        *judge_served(history, seen, oldest, newest),
        *judge_order(seen, gaps_allowed=history.compacts),
        *(judge_latest if history.compacts else judge_floors)(history, seen, floors, newest),
    ]


def judge_bounds(history: History, seen: Observed, oldest: int, newest: int, killed: bool) -> list[str]:
    starts = history.starts[oldest:newest + 1]
    broken = []
    if not min(starts) <= seen.start <= max(starts):
        broken.append(f"log start {seen.start} outside {min(starts)}..{max(starts)}")
    ends = history.ends[oldest:newest + 1]
    # A restart at another offset drops one segment after the other.
    lowest = min(ends) if killed and newest not in history.restarts else 0
    if not lowest <= seen.end <= max(ends):
        broken.append(f"log end {seen.end} outside {lowest}..{max(ends)}")
    return broken


def judge_served(history: History, seen: Observed, oldest: int, newest: int) -> list[str]:
    """Check that every served batch was appended with these bytes, and that one version held all of them."""
    broken = []
    first, last = oldest, newest
    for batch in seen.batches:
        life = history.by_data.get(batch.data)
        if life is None and history.unknown_output and is_rewritten(history, batch):
            continue
        if life is None or life.batch != batch:
            broken.append(f"served bytes at offset {batch.base} that were never appended there")
        elif life.born > newest:
            broken.append(f"served batch {batch.base} of an append that had not begun")
        else:
            first, last = max(first, life.born), min(last, life.died - 1)
    if not broken and first > last:
        broken.append("served batches that were cut off together with batches that replaced them, "
                      f"or what an acknowledged truncation had removed (versions {first} > {last})")
    return broken


def is_rewritten(history: History, batch: Batch) -> bool:
    """Return whether a compaction may have written this batch from an appended one. It keeps the offsets, leader
    epoch, producer and sequence, and some of the records unchanged."""
    if any(history.appended.get(offset) != record for offset, record in records_of(batch)):
        return False
    return any(life.batch[:2] == batch[:2] and identity(life.batch) == identity(batch) for life in history.lives)


def identity(batch: Batch) -> tuple[bytes, bytes]:
    """Return leader epoch, producer id, producer epoch and base sequence."""
    return batch.data[LEADER_EPOCH_AT:MAGIC_AT], batch.data[PRODUCER_ID_AT:RECORD_COUNT_AT]


def judge_order(seen: Observed, *, gaps_allowed: bool) -> list[str]:
    """Check that offsets rise and that missing ones are reported, unless a compaction may have removed them."""
    broken = []
    at = seen.start
    reported = {gap.first: gap.next for gap in seen.gaps}
    for batch in [*seen.batches, Batch(seen.end, seen.end, b"")]:
        while at < batch.base and at in reported and reported[at] > at:
            at = reported[at]
        if at < batch.base and not gaps_allowed:
            broken.append(f"offsets {at} to {batch.base - 1} are missing without a word")
        elif at > batch.base and not (batch.base < seen.start <= batch.last and at == seen.start):
            broken.append(f"batch {batch.base} after offset {at}")
        at = batch.last + 1
    return broken


def judge_floors(history: History, seen: Observed, floors: tuple[Floor, ...], newest: int) -> list[str]:
    served = {batch.data for batch in seen.batches}
    broken = []
    for floor in floors:
        start = max(history.starts[floor.version:newest + 1])
        for life in history.lives:
            batch = life.batch
            if life.born > floor.version or life.died <= newest or batch.last >= floor.end or batch.last < start:
                continue
            if batch.data not in served:
                broken.append(f"promised batch {batch.base}..{batch.last} is not served "
                              f"(version {floor.version}, end {floor.end})")
    return broken


def judge_latest(history: History, seen: Observed, floors: tuple[Floor, ...], newest: int) -> list[str]:
    """Check a compacted log: the latest promised record of every key is present, or a later one is."""
    served: dict[bytes | None, tuple[int, bytes | None]] = {}
    for batch in seen.batches:
        for offset, (key, value) in records_of(batch):
            served[key] = (offset, value)
    broken = []
    for floor in floors:
        start = max(history.starts[floor.version:newest + 1])
        latest: dict[bytes | None, tuple[int, bytes | None]] = {}
        for life in history.lives:
            if life.born <= floor.version and start <= life.batch.base and life.batch.last < floor.end:
                latest.update({key: (offset, value) for offset, (key, value) in records_of(life.batch)})
        for key, (offset, value) in latest.items():
            found = served.get(key, (-1, None))
            if found[0] < offset or (found[0] == offset and found[1] != value):
                broken.append(f"the latest record of {key!r}, at offset {offset}, is not served")
    return broken
