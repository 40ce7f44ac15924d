"""Try the crash states of a recorded workload: write each to disk, open the log in it, and judge its content."""

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from kraft.crashes.disk import Choice, Content, Disk, State
from kraft.crashes.run import scratch_directory
from kraft.crashes.states import Found, killed_states, power_loss_states
from kraft_native.batch.records import BatchBuilder
from kraft_native.file.faults import Trace
from kraft_native.file.file_io import open_descriptors

from .promises import Batch, History, Observed, Progress, judge
from .subject import Session, Subject
from .workload import BASE_TIME_MS, Recording

RECOVERY_POINTS = 4         # of one crashed recovery: points, and states at each of them
RECOVERY_STATES = 6

@dataclass(frozen=True, slots=True)
class Broken:
    """A broken promise: the crash point, the state that was left, and the violation."""

    subject: str
    durability: str
    seed: int
    event: int
    label: str
    what: tuple[str, ...]
    state: State

    def __str__(self) -> str:
        files = " ".join(f"{path}:{content.size}" for path, content in sorted(self.state.files.items()))
        return (f"{self.subject} {self.durability} seed {self.seed}, crash after event {self.event}, {self.label}: "
                f"{'; '.join(self.what[:3])} [{files}]")


@dataclass(slots=True)
class Report:
    """Counts of one or more runs; `add` sums them."""

    tried: Counter[tuple[str, str]] = field(default_factory=Counter)        # (durability, kind of crash) -> states
    generated: int = 0
    points: int = 0
    broken: list[Broken] = field(default_factory=list)

    def add(self, other: "Report") -> None:
        self.tried.update(other.tried)
        self.generated += other.generated
        self.points += other.points
        self.broken.extend(other.broken)

    @property
    def states(self) -> int:
        return self.tried.total()


def probe_batch(number: int) -> bytes:
    """Return a batch that the check after a crash appends; no workload appends the same bytes."""
    builder = BatchBuilder()
    builder.append(b"after the crash %d" % number, b"probe", BASE_TIME_MS + number)
    return builder.build()


def check_open(subject: Subject, directory: Path, history: History, progress: Progress, *, killed: bool) -> list[str]:
    """Open, judge, append, close and open again; return the broken promises."""
    session = subject.open(directory, "page-cache")
    try:
        seen = session.observe()
        broken = judge(history, progress, seen, killed=killed)
        broken += session.audit()
        if broken:
            return broken
        seen = append_probes(session, seen)
        broken = same(seen, session.observe(), "after appending")
    finally:
        session.close()
    if broken:
        return broken
    session = subject.open(directory, "page-cache")
    try:
        return same(seen, session.observe(), "after a clean restart") + session.audit()
    finally:
        session.close()


def append_probes(session: Session, seen: Observed) -> Observed:
    batches, end = list(seen.batches), seen.end
    for number in range(2):
        base, stored = session.append(probe_batch(number))
        if base != end:
            raise AssertionError(f"an append after the crash got offset {base}, the log ended at {end}")
        batches.append(Batch(base, base, stored))
        end = base + 1
    return Observed(seen.start, end, batches, seen.gaps)


def same(wanted: Observed, seen: Observed, when: str) -> list[str]:
    if seen == wanted:
        return []
    return [f"{when} the log serves {summary(seen)} and not {summary(wanted)}"]


def summary(seen: Observed) -> str:
    gaps = [tuple(gap) for gap in seen.gaps]
    return f"{[batch[:2] for batch in seen.batches]} of {seen.start}..{seen.end}, gaps {gaps}"


@dataclass(slots=True)
class Point:
    """A crash point: the last event fed, and the marks before it and up to the next one."""

    number: int
    disk: Disk
    before: Progress
    after: Progress


class Runner:
    """Try states of one recording.

    `random_count`: random states per crash point. `bound`: maximum number of states. `every`: only each n-th event is
    a crash point. `nested`: the recovery of each n-th state crashes too (0: none).
    """

    def __init__(self, subject: Subject, recording: Recording, *, random_count: int = 8, bound: int = 1 << 40,
                 every: int = 1, nested: int = 0, stop_at_broken: bool = False):
        self.stop_at_broken = stop_at_broken
        self.nested = nested
        self.subject = subject
        self.recording = recording
        self.random = Random(recording.seed)
        self.random_count = random_count
        self.bound = bound
        self.every = every
        self.report = Report()
        self.tried: set[tuple[bytes, bool, int]] = set()

    def run(self) -> Report:
        with scratch_directory() as scratch:
            for point in self.points():
                if self.report.states >= self.bound:
                    break
                self.report.points += 1
                self.run_point(point, Path(scratch))
        return self.report

    def points(self) -> Iterator[Point]:
        """Yield the crash points: before the first event, and after each event that changed what a crash may leave."""
        disk, progress = Disk(self.recording.top), Progress()
        events = self.recording.events
        changed = True
        before = progress.copy()
        number = -1
        for next_number, event in enumerate(events):
            if event.kind == "mark":
                progress.take(event.mark)
                continue
            if changed:
                yield Point(number, disk, before, progress.copy())
            before = progress.copy()
            changed = disk.feed(event)
            number = next_number
        yield Point(number, disk, before, progress.copy())

    def run_point(self, point: Point, scratch: Path) -> None:
        if point.number % self.every:
            return
        whole = point.disk.state(Choice({}, point.disk.all_names()))
        self.try_state(Found("all kept", whole), point, scratch, killed=True, progress=point.after)
        if point.number >= 0:
            for found in killed_states(point.disk, self.recording.events[point.number], self.random):
                self.try_state(found, point, scratch, killed=True, progress=point.before)
        for found in power_loss_states(point.disk, self.random, self.random_count):
            self.try_state(found, point, scratch, killed=False, progress=point.after)

    def try_state(self, found: Found, point: Point, scratch: Path, *, killed: bool, progress: Progress) -> None:
        self.report.generated += 1
        state = self.without_ignored(found.state)
        key = (state.key(), killed, progress.marks)
        enough = self.report.states >= self.bound or (self.stop_at_broken and self.report.broken)
        if key in self.tried or enough:
            return
        self.tried.add(key)
        crash = "killed" if killed else "power loss"
        self.judge_state(Found(f"{crash}, {found.label}", state), point, scratch, crash, progress)
        if not killed and self.nested and self.report.states % self.nested == 0:
            self.try_recovery(Found(found.label, state), point, scratch, progress)

    def judge_state(self, found: Found, point: Point, scratch: Path, crash: str, progress: Progress) -> None:
        self.report.tried[self.recording.durability, crash] += 1
        broken = self.check(self.with_noise(found.state), scratch, progress, killed=crash == "killed")
        if broken:
            self.report.broken.append(Broken(self.subject.name, self.recording.durability, self.recording.seed,
                                             point.number, found.label, tuple(broken), found.state))

    def try_recovery(self, found: Found, point: Point, scratch: Path, progress: Progress) -> None:
        """Lose power again, between the open of the state that the first loss left and its clean close."""
        directory = scratch / "log"
        directory.mkdir()
        found.state.write_to(directory)
        try:
            with Trace(directory) as trace:
                self.subject.open(directory, self.recording.durability).close()
        except Exception:  # noqa: BLE001 - it does not open or close: `judge_state` has reported so
            return
        finally:
            shutil.rmtree(directory)
        disk = Disk.holding(found.state, directory)
        events = trace.events()
        chosen = set(self.random.sample(range(len(events)), min(RECOVERY_POINTS, len(events))))
        for number, event in enumerate(events):
            if not disk.feed(event) or number not in chosen:
                continue
            states = list(power_loss_states(disk, self.random, 2))
            for again in self.random.sample(states, min(RECOVERY_STATES, len(states))):
                label = f"power loss, {found.label}; then in recovery after {event!r}, {again.label}"
                state = self.without_ignored(again.state)
                self.judge_state(Found(label, state), point, scratch, "power loss in recovery", progress)

    def without_ignored(self, state: State) -> State:
        left = {path: content for path, content in state.files.items() if not self.subject.ignores(path)}
        return State(left, state.directories)

    def with_noise(self, state: State) -> State:
        """Write noise into files that may have any content."""
        files = dict(state.files)
        for path in self.subject.ignored_files():
            draw = self.random.randrange(4)
            if draw:
                size = (0, 0, 100, 4096)[draw]
                files[path] = Content(self.random.randbytes(size), size)
        return State(files, state.directories)

    def check(self, state: State, scratch: Path, progress: Progress, *, killed: bool) -> list[str]:
        directory = scratch / "log"
        directory.mkdir()
        before = open_descriptors()
        try:
            state.write_to(directory)
            broken = check_open(self.subject, directory, self.recording.history, progress, killed=killed)
        except Exception as error:  # noqa: BLE001 - any error of the log here is a broken promise: it is reported
            broken = [f"{type(error).__name__}: {error}"]
        else:
            if open_descriptors() != before:
                broken.append(f"{open_descriptors() - before} descriptors were left open")
        finally:
            shutil.rmtree(directory)
        return broken
