"""Runs of an embedder's code: recorded once and crashed at every point, or with each of its file operations failing.

`crash_test` computes what a killed process or a lost power may leave of the recorded operations (`disk`, `states`). It
writes each such state into a directory, and calls the embedder's check on it. docs/internals/crash-kit.md has the model
of the disk.
"""

import errno as errnos
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from kraft.crashes.disk import Choice, Content, Disk, State, trimmed
from kraft.crashes.states import Found, killed_states, power_loss_states
from kraft_native.base.errors import InvalidArgumentError, KraftError
from kraft_native.file.faults import MUTATIONS, Event, Trace, fail_at

KILLED: Final = "killed"
POWER_LOST: Final = "power lost"
FAILED_CALL: Final = "failed call"

# Shared by running processes; after a crash it may hold anything.
SHARED_PAGE: Final = "kraft.live"
LOCK_SUFFIX: Final = ".lock"
NOISE_BYTES: Final = (0, 100, 4096)
MEMORY_DIRECTORY: Final = Path("/dev/shm")  # noqa: S108 - the kit creates a directory of its own there

STATES_MAX: Final = 20_000
CALLS_MAX: Final = 10_000
RANDOM_STATES: Final = 4
BROKEN_SHOWN: Final = 5


class Crash(NamedTuple):
    """A crash, as a check sees it: its `kind` (`KILLED`, `POWER_LOST` or `FAILED_CALL`), the notes that the work had
    taken before it, and `label`, which describes it."""

    kind: str
    notes: tuple[object, ...]
    label: str


class Broken(NamedTuple):
    """A crash after which the check failed, and the check's error."""

    crash: Crash
    error: Exception

    def __str__(self) -> str:
        return f"{self.crash.label}: {type(self.error).__name__}: {self.error}"


class BrokenInvariantError(AssertionError):
    """A check failed. `broken` has each crash with its error, at most `broken_max` of them."""

    def __init__(self, broken: list[Broken], tried: int) -> None:
        lines = "\n".join(f"  {each}" for each in broken[:BROKEN_SHOWN])
        super().__init__(f"the check failed {len(broken)} times in {tried} crashes:\n{lines}")
        self.broken = broken


@dataclass(slots=True)
class CrashReport:
    """Counts of a run: different states (or failed calls) by kind of crash, and file operations of the work.
    `bounded`: the run ended before the last operation, at `states_max` or `calls_max`."""

    tried: Counter[str] = field(default_factory=Counter)
    operations: int = 0
    bounded: bool = False

    @property
    def states(self) -> int:
        """Number of crashes that the check has seen."""
        return self.tried.total()


Note = Callable[[object], None]
Work = Callable[[Path, Note], object]
Check = Callable[[Path, Crash], object]
Prepare = Callable[[Path], object]


def scratch_directory() -> tempfile.TemporaryDirectory[str]:
    """Return a new directory, in memory where the system has such a place: a test writes many thousands of files."""
    directory = MEMORY_DIRECTORY if MEMORY_DIRECTORY.is_dir() else None
    return tempfile.TemporaryDirectory(prefix="kraft-crash-", dir=directory)


def crash_test(work: Work, check: Check, *, prepare: Prepare | None = None, seed: int = 1, every: int = 1,
               states_max: int = STATES_MAX, random_states: int = RANDOM_STATES, broken_max: int = 1) -> CrashReport:
    """Run `work(directory, note)` once in a new directory, and `check(directory, crash)` on every state that a crash
    may leave.

    The work calls `note(anything)` when it has acknowledged something; `crash.notes` are the notes before the crash. A
    check raises when its invariant does not hold. `prepare(directory)` fills the directory before; no crash happens
    during it. The same `seed` gives the same choice among the states of the same operations. `every`: only each n-th
    operation is a crash point. `random_states`: additional states of each point after a loss of power.

    Raises `BrokenInvariantError` after `broken_max` failed checks, or at the end. Raises `InvalidArgumentError` when
    the work has changed files by other means than kraft's, because a crash could not lose those. What the work itself
    raises is passed on. A process runs one test at a time.
    """
    _check_numbers(every=every, states_max=states_max, broken_max=broken_max)
    with scratch_directory() as scratch:
        recording = _record(work, prepare, Path(scratch))
        return _Campaign(check, recording, Path(scratch), seed=seed, every=every, states_max=states_max,
                         random_states=random_states, broken_max=broken_max).run()


def failure_test(work: Work, check: Check, *, prepare: Prepare | None = None,
                 errors: Sequence[int] = (errnos.EIO, errnos.ENOSPC), calls_max: int = CALLS_MAX,
                 broken_max: int = 1) -> CrashReport:
    """Run `work(directory, note)` again and again; its k-th file operation fails, for every k and each of `errors`.
    Then run `check(directory, crash)`.

    The work may raise `KraftError` or `OSError`; anything else counts as broken. It must not leave a log open. The
    other arguments and errors are those of `crash_test`.
    """
    _check_numbers(calls_max=calls_max, broken_max=broken_max)
    report, broken = CrashReport(), list[Broken]()
    with scratch_directory() as scratch:
        for error in errors:
            for call in range(1, calls_max + 1):
                found = _fail_one(work, check, prepare, Path(scratch), call, error)
                if found is None:
                    report.operations = max(report.operations, call - 1)
                    break
                report.tried[FAILED_CALL] += 1
                if found:
                    broken.append(found[0])
                if len(broken) >= broken_max:
                    raise BrokenInvariantError(broken, report.states)
            else:
                report.bounded = True
    if broken:
        raise BrokenInvariantError(broken, report.states)
    return report


def _check_numbers(**numbers: int) -> None:
    for name, value in numbers.items():
        if value < 1:
            raise InvalidArgumentError(f"{name}: {value}; allowed: 1 and more")


def _new_directory(scratch: Path, prepare: Prepare | None) -> Path:
    directory = scratch / "work"
    directory.mkdir()
    if prepare is not None:
        prepare(directory)
    return directory


def _fail_one(work: Work, check: Check, prepare: Prepare | None, scratch: Path, call: int,
              error: int) -> list[Broken] | None:
    """Return the broken invariant of one failed call, if any; None when the work has fewer calls."""
    directory = _new_directory(scratch, prepare)
    notes: list[object] = []
    crash = Crash(FAILED_CALL, (), f"call {call} fails with {errnos.errorcode.get(error, error)}")
    try:
        with fail_at(call, error=error, kinds=MUTATIONS, under=directory) as plan:
            try:
                work(directory, notes.append)
            except Exception as raised:  # it is the result
                if plan.fired == 0:
                    raise
                if not isinstance(raised, KraftError | OSError):
                    return [Broken(crash._replace(notes=tuple(notes)), raised)]
            if plan.fired == 0:
                return None
        return _checked(check, directory, crash._replace(notes=tuple(notes)))
    finally:
        shutil.rmtree(directory)


def _checked(check: Check, directory: Path, crash: Crash) -> list[Broken]:
    try:
        check(directory, crash)
    except Exception as error:  # noqa: BLE001 - it is the result
        return [Broken(crash, error)]
    return []


# --- recording --------------------------------------------------------------------------------------------------------


class _Recording(NamedTuple):
    top: Path
    before: State
    events: list[Event]


def _record(work: Work, prepare: Prepare | None, scratch: Path) -> _Recording:
    directory = _new_directory(scratch, prepare)
    before = _state_of(directory)
    with Trace(directory) as trace:
        work(directory, trace.mark)
    recording = _Recording(directory, before, trace.events())
    try:
        _check_complete(recording)
    finally:
        shutil.rmtree(directory)
    return recording


def _state_of(directory: Path) -> State:
    files, directories = {}, []
    for path in directory.rglob("*"):
        name = str(path.relative_to(directory))
        if path.is_dir():
            directories.append(name)
        elif not _is_shared(name):
            data = path.read_bytes()
            files[name] = trimmed(data, len(data))
    return State(files, frozenset(directories))


def _is_shared(path: str) -> bool:
    return path.endswith((SHARED_PAGE, LOCK_SUFFIX))


def _check_complete(recording: _Recording) -> None:
    """Compare the directory with the recorded operations: other writers' files would survive every crash."""
    disk = Disk.holding(recording.before, recording.top)
    for event in recording.events:
        disk.feed(event)
    recorded, found = disk.state(Choice({}, disk.all_names())).files, _state_of(recording.top).files
    for path in sorted(recorded | found):
        if not _is_shared(path) and recorded.get(path) != found.get(path):
            raise InvalidArgumentError(
                f"work: {path} was changed by other means than kraft's files, so no crash could lose the change; "
                "kraft_native.file.file_io.write_atomic writes a file of your own")


# --- crashes of a recording -------------------------------------------------------------------------------------------


class _Point(NamedTuple):
    """A crash point: the number of the last operation, and the notes before it and after it."""

    number: int
    event: Event | None
    before: tuple[object, ...]
    after: tuple[object, ...]


class _Campaign:
    """Crashes of one recording; `run` is called once."""

    def __init__(self, check: Check, recording: _Recording, scratch: Path, *, seed: int, every: int, states_max: int,
                 random_states: int, broken_max: int) -> None:
        self.check = check
        self.recording = recording
        self.scratch = scratch
        self.random = Random(seed)
        self.every = every
        self.states_max = states_max
        self.random_states = random_states
        self.broken_max = broken_max
        self.disk = Disk.holding(recording.before, recording.top)
        self.report = CrashReport(operations=sum(event.kind != "mark" for event in recording.events))
        self.broken: list[Broken] = []
        self.tried: set[tuple[bytes, str, int]] = set()

    def run(self) -> CrashReport:
        for at, point in enumerate(self._points()):
            if at % self.every == 0:
                self._crash_at(point)
            if self.report.bounded:
                break
        if self.broken:
            raise BrokenInvariantError(self.broken, self.report.states)
        return self.report

    def _points(self) -> Iterator[_Point]:
        """Yield a point before the first operation, and one after each that changes what a crash may leave. `disk`
        then has that state."""
        notes: list[object] = []
        before: tuple[object, ...] = ()
        last, number, changed = None, 0, True
        for event in self.recording.events:
            if event.kind == "mark":
                notes.append(event.mark)
                continue
            if changed:
                yield _Point(number, last, before, tuple(notes))
            before, last, number = tuple(notes), event, number + 1
            changed = self.disk.feed(event)
        yield _Point(number, last, before, tuple(notes))

    def _crash_at(self, point: _Point) -> None:
        whole = Found("everything kept", self.disk.state(Choice({}, self.disk.all_names())))
        self._try(whole, point, KILLED, point.before)
        self._try(whole, point, KILLED, point.after)
        if point.event is not None:
            for found in killed_states(self.disk, point.event, self.random):
                self._try(found, point, KILLED, point.before)
        for found in power_loss_states(self.disk, self.random, self.random_states):
            self._try(found, point, POWER_LOST, point.after)

    def _try(self, found: Found, point: _Point, kind: str, notes: tuple[object, ...]) -> None:
        state = State({path: content for path, content in found.state.files.items() if not path.endswith(SHARED_PAGE)},
                      found.state.directories)
        key = (state.key(), kind, len(notes))
        if key in self.tried:
            return
        if self.report.states >= self.states_max:
            self.report.bounded = True
            return
        self.tried.add(key)
        self.report.tried[kind] += 1
        after = "the start" if point.event is None else f"operation {point.number} {point.event!r}"
        self._judge(self._with_noise(state), Crash(kind, notes, f"{kind} after {after}, {found.label}"))
        if len(self.broken) >= self.broken_max:
            raise BrokenInvariantError(self.broken, self.report.states)

    def _judge(self, state: State, crash: Crash) -> None:
        directory = self.scratch / "crashed"
        directory.mkdir()
        try:
            state.write_to(directory)
            self.broken += _checked(self.check, directory, crash)
        finally:
            shutil.rmtree(directory)

    def _with_noise(self, state: State) -> State:
        """Give the page that running processes share any content, or none, beside each log."""
        files = dict(state.files)
        for name in sorted({str(Path(path).parent / SHARED_PAGE) for path in files if path.endswith(".log")}):
            size = self.random.choice(NOISE_BYTES)
            files[name] = Content(self.random.randbytes(size), size)
        return State(files, state.directories)
