"""Damage to a small log without an owner: every byte flipped, every length cut, and the report to the reader.

A flip is harmless when everything is served as it was. It counts as `is_reported` when the missing part is reported and
everything else is served. Every other outcome is a broken promise, except for three, which are counted apart:

- "torn end": the end of a log that was not closed cleanly looks the same whether torn or damaged. The last batch that
  a flip hit, and everything that a cut removed, may be missing without a report.
- "start forgotten": without its state file a log does not know that records at its front were deleted.
- "moved in a gap": the base offset of a batch lies outside its CRC. Nothing else in Kafka's format holds it, except
  the index entry that one batch in some kilobytes has. Compaction may have left gaps on both sides of a batch, or a
  gap on one side and the segment's end on the other. A base offset that changed within that room leaves a segment
  that compaction might have produced: no byte contradicts it. Such a batch is served, whole, at the wrong offset.
"""

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kraft.crashes.disk import Content, State, trimmed
from kraft.crashes.run import scratch_directory
from kraft_native.base.errors import KraftError
from kraft_native.batch.batch import LENGTH_AT
from kraft_native.file.file_io import open_descriptors

from .promises import Batch, History, Observed
from .subject import Subject

ZEROS_EVERY = 65_537
EPOCH = slice(12, 16)       # of a batch: its leader epoch, which lies outside the CRC


@dataclass(slots=True)
class DamageReport:
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)     # (file, outcome) -> count
    broken: list[str] = field(default_factory=list)

    def add(self, other: "DamageReport") -> None:
        self.outcomes.update(other.outcomes)
        self.broken.extend(other.broken)

    @property
    def tried(self) -> int:
        return self.outcomes.total()


def read_state(directory: Path) -> State:
    """Read a real directory as a `State`, with whole contents."""
    files = {}
    for path in directory.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            files[str(path.relative_to(directory))] = trimmed(data, len(data))
    directories = (str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_dir())
    return State(files, frozenset(directories))


def positions(content: Content) -> list[int]:
    """Return every byte position, but few of those in the zeros behind the end of an open log."""
    end = min(content.size, len(content.data) + 100)
    return [*range(end), *range(end, content.size, ZEROS_EVERY)]


def flips(state: State, every: int) -> Iterator[tuple[str, str, State]]:
    """Flip one bit of one byte, then all bits of it, for each byte of each file; yield (file, label, state)."""
    number = 0
    for path, content in sorted(state.files.items()):
        for position in positions(content):
            for mask in (1 << (position % 8), 0xFF):
                number += 1
                if number % every:
                    continue
                data = bytearray(content.data.ljust(position + 1, b"\0"))
                data[position] ^= mask
                changed = {**state.files, path: Content(bytes(data), content.size)}
                yield path, f"{path} byte {position} xor {mask:#04x}", State(changed, state.directories)


def cuts(state: State, every: int) -> Iterator[tuple[str, str, State]]:
    """Cut each file to each shorter length, and remove it."""
    number = 0
    for path, content in sorted(state.files.items()):
        for size in positions(content):
            number += 1
            if number % every == 0:
                changed = {**state.files, path: Content(content.data[:size], size)}
                yield path, f"{path} cut to {size}", State(changed, state.directories)
        left = {name: kept for name, kept in state.files.items() if name != path}
        yield path, f"{path} removed", State(left, state.directories)


def kind_of(path: str) -> str:
    """Return the group of a file in the report: its suffix if the file is numbered, otherwise its name."""
    name = Path(path)
    return name.suffix if name.stem.isdigit() else name.name


class DamageRun:
    """Open each damaged copy of `state` and compare what it serves with `wanted`, the content of the whole log."""

    def __init__(self, subject: Subject, state: State, history: History, *, clean: bool):
        self.subject = subject
        self.state = state
        self.clean = clean
        self.wanted = Observed(history.starts[-1], history.ends[-1], history.content())
        self.by_base = {life.batch.base: life.batch for life in history.alive}
        self.newest = max((name for name in state.files if name.endswith(".log")), default="")
        self.gaps_end = subject.gaps_end(state)
        self.report = DamageReport()

    def run(self, *, every: int = 1) -> DamageReport:
        with scratch_directory() as scratch:
            for damages in (flips(self.state, every), cuts(self.state, every)):
                for path, label, state in damages:
                    self.try_state(Path(scratch) / "log", path, label, state)
        return self.report

    def try_state(self, directory: Path, path: str, label: str, state: State) -> None:
        directory.mkdir()
        before = open_descriptors()
        try:
            state.write_to(directory)
            outcome = self.outcome(directory, path, label)
            if open_descriptors() != before:
                self.report.broken.append(f"{label}: {open_descriptors() - before} descriptors were left open")
        except Exception as error:  # noqa: BLE001 - any other error of the log is a broken promise: it is reported
            outcome = "crashed"
            self.report.broken.append(f"{label}: {type(error).__name__}: {error}")
        finally:
            shutil.rmtree(directory)
        self.report.outcomes[kind_of(path), outcome] += 1

    def outcome(self, directory: Path, path: str, label: str) -> str:
        try:
            session = self.subject.look(directory)
        except KraftError as error:
            self.report.broken.append(f"{label}: open is refused: {error}")
            return "refused"
        try:
            seen = session.observe()
        finally:
            session.close()
        if seen == self.wanted:
            return "exact"
        wrong = [batch for batch in seen.batches if not self.is_right(batch)]
        if wrong and path.endswith(".log") and " xor " in label and self.moved_in_gap(seen):
            return "moved in a gap"
        if wrong:
            self.report.broken.append(f"{label}: wrong bytes are served at offset {wrong[0].base}")
            return "wrong"
        if seen.start < self.wanted.start:
            if path not in self.subject.start_files():
                self.report.broken.append(f"{label}: the log start went back to {seen.start}")
            return "start forgotten"
        lost = self.lost(seen)
        if lost and self.is_torn_end(path, label, lost):
            return "torn end"
        if lost:
            unnotified = [batch for batch in lost if not is_reported(seen, batch)]
            if unnotified:
                self.report.broken.append(f"{label}: batch {unnotified[0].base} is missing without a word")
                return "missing"
            beyond = self.beyond_damage(path, lost)
            if beyond:
                self.report.broken.append(f"{label}: {beyond} sound batches are not served")
                return "too much lost"
            return "told"
        if (seen.start, seen.end) != (self.wanted.start, self.wanted.end):
            self.report.broken.append(f"{label}: the log is {seen.start}..{seen.end} and was "
                                      f"{self.wanted.start}..{self.wanted.end}")
            return "bounds"
        return "told"

    def is_right(self, batch: Batch) -> bool:
        """Return whether the batch has the original bytes and offsets. The leader epoch may differ where the log's
        format does not cover it."""
        wanted = self.by_base.get(batch.base)
        return wanted is not None and batch.last == wanted.last and self.covered(batch) == self.covered(wanted)

    def moved_in_gap(self, seen: Observed) -> bool:
        """Return whether everything is unchanged except one base offset that could be right. Its batch still lies
        between its neighbours, where gaps are legal."""
        wanted = self.wanted.batches
        changed = [at for at, batch in enumerate(seen.batches) if batch not in wanted[at:at + 1]]
        if len(changed) != 1 or len(seen.batches) != len(wanted) or (seen.start, seen.end) != (
                self.wanted.start, self.wanted.end):
            return False
        at = changed[0]
        before = wanted[at - 1].last + 1 if at else self.wanted.start
        behind = wanted[at + 1].base if at + 1 < len(wanted) else self.wanted.end
        return (seen.batches[at].data[LENGTH_AT:] == wanted[at].data[LENGTH_AT:] and behind <= self.gaps_end
                and before <= seen.batches[at].base and seen.batches[at].last < behind)

    def covered(self, batch: Batch) -> bytes:
        return batch.data if self.subject.checks_epochs else batch.data[:EPOCH.start] + batch.data[EPOCH.stop:]

    def is_torn_end(self, path: str, label: str, lost: list[Batch]) -> bool:
        if self.clean or path != self.newest or lost != self.wanted.batches[-len(lost):]:
            return False
        return len(lost) == 1 or " xor " not in label

    def lost(self, seen: Observed) -> list[Batch]:
        served = {batch.base for batch in seen.batches}
        return [batch for batch in self.wanted.batches if batch.base not in served]

    def beyond_damage(self, path: str, lost: list[Batch]) -> int:
        """Return the number of missing batches that one damaged place cannot have destroyed.

        One byte destroys one batch, or two when it makes the length of the first one cover the start of the second. A
        cut or removed segment destroys its own batches. Other files destroy nothing.
        """
        if not path.endswith(".log"):
            return len(lost)
        base = int(Path(path).stem)
        bases = [int(Path(name).stem) for name in self.state.files if name.endswith(".log")]
        end = min((other for other in bases if other > base), default=self.wanted.end)
        return sum(not base <= batch.base < end for batch in lost)


def is_reported(seen: Observed, batch: Batch) -> bool:
    return any(gap.first <= batch.base and batch.last < gap.next for gap in seen.gaps)
