"""Fail the k-th file operation of a workload, for every k: acknowledged data stays, and no other data is served."""

import errno
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kraft.crashes.run import scratch_directory
from kraft_native.base.errors import KraftError, StorageError
from kraft_native.file.faults import MUTATIONS, Event, Plan, Trace, count_operations, fail_at
from kraft_native.file.file_io import open_descriptors

from .promises import Batch, History, Progress, judge
from .runner import check_open, probe_batch
from .subject import Session, Subject
from .workload import Workload

# A failure of these may lose bytes: the log must refuse further writes.
FATAL_KINDS = ("write", "truncate", "datasync", "sync", "sync_directory")
# Output of a compaction. Until it is renamed, nothing of the log is changed; from then on every failure is final.
OUTPUT_SUFFIX, SWAP_SUFFIX = ".cleaned", ".swap"


class FaultKind(NamedTuple):
    label: str
    error: int
    short_bytes: int = 0
    persistent: bool = False
    kinds: frozenset[str] = MUTATIONS

    def plan(self, k: int, under: Path) -> Plan:
        return fail_at(k, error=self.error, short_bytes=self.short_bytes, persistent=self.persistent, kinds=self.kinds,
                       under=under)


WRITES = frozenset({"write"})
FAULTS = (
    FaultKind("EIO", errno.EIO),
    FaultKind("ENOSPC", errno.ENOSPC),
    FaultKind("all changes refused", errno.EROFS, persistent=True, kinds=MUTATIONS - {"open"}),
    FaultKind("short write of 1, then ENOSPC", errno.ENOSPC, short_bytes=1, kinds=WRITES),
    FaultKind("short write of 70, then full disk", errno.ENOSPC, short_bytes=70, persistent=True, kinds=WRITES),
    FaultKind("short write of 30", 0, short_bytes=30, kinds=WRITES),
)


@dataclass(slots=True)
class FaultReport:
    tried: Counter[str] = field(default_factory=Counter)        # by fault
    outcomes: Counter[str] = field(default_factory=Counter)     # "refused" or "carried on"
    broken: list[str] = field(default_factory=list)

    def add(self, other: "FaultReport") -> None:
        self.tried.update(other.tried)
        self.outcomes.update(other.outcomes)
        self.broken.extend(other.broken)


def run_failing(subject: Subject, durability: str, seed: int, steps: int, *, every: int = 1,
                faults: tuple[FaultKind, ...] = FAULTS) -> FaultReport:
    """Try all faults at every k-th operation; with `every`, at the middle operation of each group of that size."""
    report = FaultReport()
    for fault in faults:
        with scratch_directory() as scratch:
            total = count(subject, Path(scratch), durability, seed, steps, fault)
        for k in range(1 + (every - 1) // 2, total + 1, every):
            with scratch_directory() as scratch:
                broken = Attempt(subject, Path(scratch), durability, seed, steps, fault, k).run(report)
            report.tried[fault.label] += 1
            label = f"{subject.name} {durability} seed {seed}: {fault.label} at operation {k} of {total}"
            report.broken.extend(f"{label}: {what}" for what in broken)
    return report


def count(subject: Subject, top: Path, durability: str, seed: int, steps: int, fault: FaultKind) -> int:
    directory = top / "log"
    directory.mkdir()
    with count_operations(kinds=fault.kinds, under=directory) as counter:
        Workload(subject, directory, durability, seed, lambda _: None).run(steps)
    return counter.seen


class Attempt:
    """One workload with one fault, and the checks after it."""

    def __init__(self, subject: Subject, top: Path, durability: str, seed: int, steps: int, fault: FaultKind, k: int):
        self.subject = subject
        self.directory = top / "log"
        self.durability = durability
        self.seed = seed
        self.steps = steps
        self.fault = fault
        self.k = k
        self.progress = Progress()
        self.workload: Workload | None = None

    def run(self, report: FaultReport) -> list[str]:
        self.directory.mkdir()
        before = open_descriptors()
        try:
            with self.fault.plan(self.k, self.directory):
                failure = self.work()
                report.outcomes["carried on" if failure is None else "refused"] += 1
                broken = self.check_session(failure)
            if open_descriptors() != before:
                broken.append(f"{open_descriptors() - before} descriptors were left open")
            history = self.workload.history if self.workload else History()
            return broken or check_open(self.subject, self.directory, history, self.progress, killed=True)
        except Exception as error:  # noqa: BLE001 - any other error of the log is a broken promise: it is reported
            if self.workload is not None and self.workload.opened:
                self.workload.session.abandon()
            return [f"{type(error).__name__}: {error}"]

    def check_writable(self, session: Session) -> list[str]:
        """Check that the log still accepts appends: a compaction that failed before its swap changes nothing of it."""
        assert self.workload is not None
        end = self.workload.history.ends[-1]
        last, stored = end, session.stored(probe_batch(0), end)
        try:
            self.workload.attempt(lambda: session.append(probe_batch(0)),
                                  lambda _: self.workload.history.append([Batch(end, last, stored)]))
        except KraftError as error:
            return [f"the log refuses an append after a compaction that changed nothing: {error!r}"]
        return []

    def work(self) -> KraftError | None:
        """Run until a step fails and return its error. Keep in `fatal` the first failed call that may lose bytes."""
        failure = None
        with Trace(self.directory) as trace:
            try:
                self.workload = Workload(self.subject, self.directory, self.durability, self.seed, self.progress.take)
                self.workload.run(self.steps)
            except KraftError as error:
                failure = error
        failed = [event for event in trace.events() if event.error == self.fault.error and self.fault.error
                  and not self.subject.ignores(event.path)]
        self.fatal = next((event for event in failed if is_fatal(event)), None)
        self.harmless = not self.fault.persistent and bool(failed) and all(is_output(event) for event in failed)
        return failure

    def check_session(self, failure: KraftError | None) -> list[str]:
        """Check the next operations of the log that met the fault, then close it."""
        broken: list[str] = []
        if failure is None:
            return [f"the fault was not reported: {self.fatal!r}"] if self.fatal else []
        if not isinstance(failure, StorageError) and failure.code != StorageError.code:
            broken.append(f"the failure is reported as {failure!r}")
        if self.workload is None or not self.workload.opened:
            return broken
        session = self.workload.session
        if self.fatal:
            try:
                session.append(probe_batch(0))
                broken.append(f"the log took an append after {self.fatal!r}")
            except KraftError as error:
                if error.code != StorageError.code:
                    broken.append(f"an append after the failure is refused with {error!r}")
        broken += judge(self.workload.history, self.progress, session.observe(), killed=True)
        if self.harmless and not broken:
            broken += self.check_writable(session)
        self.workload.opened = False
        with suppress(KraftError):      # a close that cannot flush raises; it must leave no descriptor
            session.close()
        return broken


def is_output(event: Event) -> bool:
    """Return whether the operation was on the output of a compaction, before its swap."""
    return event.path.endswith(OUTPUT_SUFFIX) and event.kind != "rename"


def is_fatal(event: Event) -> bool:
    if event.kind == "rename":
        return event.path.endswith((OUTPUT_SUFFIX, SWAP_SUFFIX))
    return event.kind in FATAL_KINDS and not is_output(event)
