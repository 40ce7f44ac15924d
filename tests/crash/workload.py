"""Seeded workloads: the operations on a log while it is traced, and the resulting history."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeVar

from kraft_native.base.errors import KraftError
from kraft_native.batch.batch import BASE_TIMESTAMP_AT, LAST_OFFSET_DELTA_AT
from kraft_native.batch.records import BatchBuilder
from kraft_native.file.faults import Event, Trace

from .promises import Batch, Begin, Done, Floor, History, Observed
from .subject import Session, Subject

T = TypeVar("T")

BASE_TIME_MS = 1_700_000_000_000


class BatchSource:
    """Source of batches whose bytes never repeat: numbered values, with one counter for the whole run.

    Three producers write: one without a producer id, one idempotent, one transactional. `last_offset` of a batch is
    its base plus the record count less one.
    """

    def __init__(self, random: Random, *, transactions: bool = True):
        self.random = random
        self.transactions = transactions
        self.number = 0
        self.generation = 0
        self.sequences = {0: 0, 1: 0}
        self.open_transaction = False

    def forget_producers(self) -> None:
        """Restart the producers after batches were cut off, under ids that were not used before."""
        self.generation += 1
        self.sequences = {0: 0, 1: 0}
        self.open_transaction = False

    def producer_id(self, kind: int) -> int:
        return 100 + 2 * self.generation + kind

    def value(self) -> bytes:
        self.number += 1
        size = self.random.choice((0, 10, 90, 90, 300, 700))
        return b"%08d" % self.number + self.random.randbytes(4) * (size // 4)

    def fill(self, builder: BatchBuilder) -> int:
        count = self.random.choice((1, 1, 2, 5))
        for _ in range(count):
            builder.append(self.value(), b"key-%d" % self.random.randrange(8), BASE_TIME_MS + self.number)
        return count

    def plain(self) -> bytes:
        builder = BatchBuilder()
        self.fill(builder)
        return builder.build()

    def idempotent(self, kind: int = 0) -> bytes:
        builder = BatchBuilder(transactional=kind == 1)
        count = self.fill(builder)
        batch = builder.build(producer_id=self.producer_id(kind), producer_epoch=0, base_sequence=self.sequences[kind])
        self.sequences[kind] += count
        return batch

    def transactional(self) -> bytes:
        self.open_transaction = True
        return self.idempotent(1)

    def marker(self) -> bytes:
        """Return the marker that ends the open transaction, committed or aborted."""
        self.open_transaction = False
        self.number += 1
        builder = BatchBuilder(transactional=True, control=True)
        key = b"\0\0" + (b"\0\1" if self.random.random() < 0.5 else b"\0\0")
        builder.append(b"\0\0\0\0\0\0", key, BASE_TIME_MS + self.number)
        return builder.build(producer_id=self.producer_id(1), producer_epoch=0)

    def next(self) -> bytes:
        draw = self.random.random()
        if self.open_transaction and draw < 0.3:
            return self.marker()
        if draw < 0.5:
            return self.plain()
        return self.idempotent() if draw < 0.75 or not self.transactions else self.transactional()


@dataclass(slots=True)
class Recording:
    """One traced run of a workload."""

    events: list[Event]
    history: History
    durability: str
    seed: int
    top: Path
    source: BatchSource


class Workload:
    """Perform `steps` seeded steps on a subject's log and keep the history. `mark` receives the marks."""

    def __init__(self, subject: Subject, directory: Path, durability: str, seed: int, mark: Callable[[object], None]):
        self.subject = subject
        self.directory = directory
        self.durability = durability
        self.random = Random(f"{subject.name} {durability} {seed}")
        self.source = BatchSource(self.random, transactions=subject.transactions)
        self.history = History()
        self.mark = mark
        self.session: Session = subject.open(directory, durability)
        self.reported_durable = 0
        self.opened = True

    def run(self, steps: int) -> None:
        """Perform the steps, then close cleanly."""
        self.run_steps(steps)
        self.opened = False
        self.session.close()
        self.mark(Floor(self.history.version, self.history.ends[-1]))

    def run_steps(self, steps: int) -> None:
        names, weights = zip(*self.subject.operations().items(), strict=True)
        for _ in range(steps):
            getattr(self, f"do_{self.random.choices(names, weights)[0]}")()
            self.report_durable()

    def report_durable(self) -> None:
        end = self.session.durable_end()
        if end > self.reported_durable:
            self.reported_durable = end
            self.mark(Floor(self.history.version, end))

    def attempt(self, act: Callable[[], T], note: Callable[[T | None], object], durable_end: int | None = None) -> None:
        """Try one step that adds a new version. `note` writes it into the history. Where `act` failed, `note` gets
        None and notes the version that would have followed: it was begun and never acknowledged."""
        self.mark(Begin(self.history.version + 1))
        try:
            result = act()
        except KraftError:
            note(None)
            raise
        note(result)
        self.mark(Done(self.history.version))
        if durable_end is not None:
            self.mark(Floor(self.history.version, durable_end))

    def do_append(self) -> None:
        batch = self.source.next()
        end = self.history.ends[-1]
        stored = self.session.stored(batch, end)
        last = end + int.from_bytes(stored[LAST_OFFSET_DELTA_AT:BASE_TIMESTAMP_AT], "big")

        def note(result: tuple[int, bytes] | None) -> None:
            if result is not None and result != (end, stored):
                raise AssertionError(f"an append at offset {end} was answered with other bytes or with {result[0]}")
            self.history.append([Batch(end, last, stored)])

        self.attempt(lambda: self.session.append(batch), note)

    def do_wait(self) -> None:
        self.session.wait_durable()

    def do_flush(self) -> None:
        self.session.flush()
        self.mark(Floor(self.history.version, self.history.ends[-1]))

    def do_truncate(self) -> None:
        lives = self.history.alive[-5:]
        if not lives:
            return
        target = self.random.choice(lives).batch.base
        if target < self.history.starts[-1]:
            return
        self.reported_durable = min(self.reported_durable, target)
        self.source.forget_producers()
        self.attempt(lambda: self.session.truncate(target), lambda _: self.history.truncate(target), durable_end=0)

    def do_restart_at(self) -> None:
        offset = max(0, self.history.ends[-1] + self.random.randrange(-3, 10))
        self.reported_durable = offset
        self.source.forget_producers()
        self.attempt(lambda: self.session.restart_at(offset), lambda _: self.history.restart_at(offset), durable_end=0)

    def do_delete_records(self) -> None:
        start, end = self.history.starts[-1], self.history.ends[-1]
        wanted = min(end, start + self.random.randrange(0, 12))
        self.attempt(lambda: self.session.delete_records(wanted),
                     lambda got: self.history.move_start(wanted if got is None else got), durable_end=0)

    def do_retention(self) -> None:
        """Apply retention. The log decides how much it drops: after a failure, anything up to the end may be
        removed."""
        self.attempt(self.session.apply_retention,
                     lambda got: self.history.move_start(self.history.ends[-1] if got is None else got), durable_end=0)

    def do_compact(self) -> None:
        def note(content: list[Batch] | None) -> None:
            if content is None:
                self.history.compact_failed()
            else:
                self.history.compact(content)

        self.attempt(self.session.compact, note, durable_end=0)

    def do_epoch(self) -> None:
        self.session.begin_epoch()

    def do_checkpoint(self) -> None:
        self.session.checkpoint()

    def do_roll(self) -> None:
        self.session.roll()

    def do_reopen(self) -> None:
        """Reopen the log; a clean close makes everything durable."""
        self.opened = False
        self.session.close()
        self.mark(Floor(self.history.version, self.history.ends[-1]))
        self.session = self.subject.open(self.directory, self.durability)
        self.opened = True


def expect_served(history: History, seen: Observed) -> None:
    """Check that exactly the history is served when nothing crashed: a check of the workload and of the log."""
    wanted = history.content()
    if (seen.start, seen.end, seen.gaps) != (history.starts[-1], history.ends[-1], []) or seen.batches != wanted:
        raise AssertionError(f"the log serves {[b[:2] for b in seen.batches]} of {seen.start}..{seen.end} and not "
                             f"{[b[:2] for b in wanted]} of {history.starts[-1]}..{history.ends[-1]}")


def record(subject: Subject, top: Path, durability: str, seed: int, steps: int) -> Recording:
    """Run a workload under a trace in `top/log` and check the result."""
    directory = top / "log"
    directory.mkdir()
    trace = Trace(directory)
    with trace:
        workload = Workload(subject, directory, durability, seed, trace.mark)
        workload.run(steps)
    session = subject.open(directory, durability)
    try:
        expect_served(workload.history, session.observe())
        broken = session.audit()
        if broken:
            raise AssertionError(f"without a crash: {broken}")
    finally:
        session.close()
    return Recording(trace.events(), workload.history, durability, seed, directory, workload.source)
