"""Chapters of a campaign: transactional clients and faults on topics of the chapter's own. At its end all transactions
have ended, and the history is judged."""

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Final, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from kraft.testing.transactions.anomaly import Anomaly
from kraft.testing.transactions.held import open_seconds
from kraft.testing.transactions.history import History, OpenSpan, Outcome
from kraft.testing.transactions.judge import judge
from tests.crash_cluster.clients import Client
from tests.crash_cluster.faults import CHECK_SECONDS, wait_until
from tests.crash_transactions.foreign import ForeignTransformer, ForeignWriter
from tests.crash_transactions.readers import GroupOffsets, StableOffsets, Watcher
from tests.crash_transactions.record import Record
from tests.crash_transactions.targets import Target
from tests.crash_transactions.transformers import Processing, Transformer
from tests.crash_transactions.writers import KraftWriter, RdkafkaWriter, Writer

INPUTS: Final = 6
OUTPUTS: Final = 3
EXCLUSIVE: Final = 2
TRANSFORMERS: Final = 2
WRITERS: Final = 6
"""Writers of each of our two kinds."""
CREATE_SECONDS: Final = 60.0
TIMEOUT_SECONDS: Final = 10.0
"""Time-out of all transactions."""
HOLDS: Final = (0.2, 1.0, 3.0)
CHAPTER_FAULTS: Final = 25
"""Faults of a chapter at most."""
CHAPTER_TRANSACTIONS: Final = 25_000
SETTLE_SECONDS: Final = 60.0
"""Time after the time-out of the last transaction, for all to end."""
PROGRESS_SECONDS: Final = 120.0


class Address(NamedTuple):
    """Brokers that a client connects to."""

    address: str


class Goal(NamedTuple):
    """Faults, and transactions with a known outcome, after which a campaign ends, and the seconds after which it ends
    in any case."""

    faults: int
    transactions: int
    seconds: float


@dataclass(slots=True)
class Totals:
    """Counts of what a campaign did."""

    counts: Counter[str] = field(default_factory=Counter)
    permitted_cycles: int = 0
    longest: OpenSpan | None = None
    """Span of the last stable offset that was held for the longest time, apart from the time of faults."""

    @property
    def decided(self) -> int:
        """Number of transactions with a known outcome."""
        return self.counts["transactions committed"] + self.counts["transactions aborted"]

    def __str__(self) -> str:
        lines = [f"{what}: {count}" for what, count in self.counts.items()]
        lines.append(f"cycles of overlapping writes, which are permitted: {self.permitted_cycles}")
        if (span := self.longest) is not None:
            lines.append(f"longest open transaction, apart from the time of faults: {open_seconds(span):.1f} s of "
                         f"{span.until - span.since:.1f} s, with a time-out of {span.timeout:.0f} s")
        return "\n".join(lines)


class Load:
    """Clients of one chapter."""

    def __init__(self, target: Target, chapter: str, timeout_seconds: float, excused: Callable[[], float],
                 writers: int, foreign: Sequence[str]) -> None:
        self.inputs, self.outputs, self.exclusive = (f"{name}-{chapter}" for name in ("in", "out", "alone"))
        self.record = Record({self.inputs: INPUTS, self.outputs: OUTPUTS, self.exclusive: EXCLUSIVE}, self.exclusive,
                             timeout_seconds)
        self.direct = Address(target.direct)
        self._create(target.replicas)
        through = Address(target.address)
        group = f"group-{chapter}"
        self.writers: list[Writer] = [
            *(RdkafkaWriter(f"rdkafka {each}", through, self.record, self.inputs, chapter)
              for each in range(writers)),
            *(KraftWriter(f"kraft {each}", through, self.record, self.inputs, chapter)
              for each in range(writers)),
            *(Transformer(f"transformer {each}", through, self.record, group, self.inputs, self.outputs, chapter)
              for each in range(TRANSFORMERS)),
            *(ForeignWriter(each, f"{each} writer", through, self.record, self.inputs, chapter) for each in foreign),
            *(ForeignTransformer(each, f"{each} transformer", through, self.record, group, self.inputs, self.outputs,
                                 chapter) for each in foreign)]
        self.watcher = Watcher("watcher", self.direct, self.record)
        self.stable = StableOffsets(self.direct, self.record, excused)
        self.offsets = GroupOffsets(self.direct, self.record, group, self.inputs)
        for client in self.clients:
            client.start()

    @property
    def clients(self) -> list[Client]:
        return [*self.writers, self.watcher, self.stable, self.offsets]

    def check(self) -> None:
        for client in self.clients:
            if client.fault is not None:
                raise client.fault

    def await_progress(self) -> None:
        """Wait until every writer has begun two more transactions: one of them has ended then."""
        wanted = [(each, each.transactions + 2) for each in self.writers if not isinstance(each, Processing)]
        self._await(lambda: all(each.transactions >= count for each, count in wanted), PROGRESS_SECONDS,
                    lambda: f"progress: {[(each.name, each.transactions, count) for each, count in wanted]}")

    def finish(self) -> History:
        """End the writers, wait for the time-outs of what they left open, and read everything to the end."""
        for writer in self.writers:
            writer.end()
        for writer in self.writers:
            writer.await_end()
        history = self.record.history
        ended = time.monotonic()
        self._await(lambda: self.stable.is_current(ended), PROGRESS_SECONDS,
                    lambda: f"all partitions answer: {self.stable.refusals}")
        # A transaction that remains open is an anomaly, which the judge reports.
        with contextlib.suppress(TimeoutError):
            self._await(lambda: self.stable.is_settled(ended), self.record.timeout_seconds + SETTLE_SECONDS, lambda: "")
        everything = Watcher("everything", self.direct, self.record, committed=False)
        last = Watcher("last", self.direct, self.record)
        for each in (everything, last):
            each.start()
        ends, stable_ends = list(self.stable.ends), list(self.stable.stable_ends)
        for reader, wanted in ((everything, ends), (self.watcher, stable_ends), (last, stable_ends)):
            wait_until(lambda reader=reader, wanted=wanted: reader.fault is not None or reader.is_at(wanted),
                       f"{reader.name} is at {wanted}, not at",
                       instead=lambda reader=reader: [view.end for view in reader.views])
            reader.await_end()
        for client in (self.stable, self.offsets):
            client.await_end()
        for log, view, end, stable_end in zip(history.logs, everything.views, ends, stable_ends, strict=True):
            log.offsets, log.codes, log.end, log.stable_end = view.offsets, view.codes, end, stable_end
        history.views += [*self.watcher.views, *last.views]
        history.open_spans += self.stable.spans
        return history

    def delete(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.direct.address, "log_level": 2})
        for done in admin.delete_topics(list(self.record.topics), request_timeout=CREATE_SECONDS).values():
            done.result(CREATE_SECONDS)

    def _create(self, replicas: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.direct.address, "log_level": 2})
        until = time.monotonic() + CREATE_SECONDS
        for topic, partitions in self.record.topics.items():
            while True:
                made = admin.create_topics([NewTopic(topic, partitions, replicas)], request_timeout=CREATE_SECONDS)
                try:
                    made[topic].result(CREATE_SECONDS)
                    break
                except KafkaException:
                    if time.monotonic() > until:
                        raise
                    time.sleep(CHECK_SECONDS)       # a broker is not registered again yet

    def _await(self, done: Callable[[], bool], seconds: float, what: Callable[[], str]) -> None:
        until = time.monotonic() + seconds
        while not done():
            self.check()
            if time.monotonic() > until:
                raise TimeoutError(f"not in {seconds:.0f} s: {what()}")
            time.sleep(CHECK_SECONDS)


class Campaign:
    """A campaign on a target that runs; `report` receives a line of progress now and then.

    - `writers`: of librdkafka, and as many of `kraft.client`.
    - `foreign`: the clients of other languages that take part in every second chapter, with a writer and a transformer
      each.
    """

    def __init__(self, target: Target, seed: int, report: Callable[[str], None], *,
                 timeout_seconds: float = TIMEOUT_SECONDS, writers: int = WRITERS, foreign: Sequence[str] = ()) -> None:
        self.target = target
        self.totals = Totals()
        self.history: History | None = None
        self._seed = seed
        self._report = report
        self._timeout_seconds = timeout_seconds
        self._writers = writers
        self._foreign = foreign
        self._chance = random.Random(seed)
        self._faulty_seconds = 0.0
        self._fault_began = 0.0

    def run(self, goal: Goal) -> list[Anomaly]:
        """Run chapters until the goal is reached. Return the anomalies of the first chapter that has some; `history` is
        its history."""
        until = time.monotonic() + goal.seconds
        chapter = 0
        while not self._is_reached(goal) and time.monotonic() < until:
            chapter += 1
            foreign = self._foreign if chapter % 2 else ()
            anomalies = self._run_chapter(f"{self._seed}-{chapter}", foreign, goal, until)
            if anomalies:
                return anomalies
        return []

    def _is_reached(self, goal: Goal) -> bool:
        return self.target.faults.total() >= goal.faults and self.totals.decided >= goal.transactions

    def _run_chapter(self, chapter: str, foreign: Sequence[str], goal: Goal, until: float) -> list[Anomaly]:
        """Run the next part of what is left. The faults are spread over the transactions."""
        began, first = time.monotonic(), self.target.faults.total()
        load = Load(self.target, chapter, self._timeout_seconds, self._excused_seconds, self._writers, foreign)
        faults, transactions = max(0, goal.faults - first), max(0, goal.transactions - self.totals.decided)
        parts = max(1, ceil(faults / CHAPTER_FAULTS), ceil(transactions / CHAPTER_TRANSACTIONS))
        faults, transactions = ceil(faults / parts), ceil(transactions / parts)
        load.await_progress()
        while time.monotonic() < until:
            struck, begun = self.target.faults.total() - first, len(load.record.history.transactions)
            if struck < faults and struck * transactions <= begun * faults:
                self._strike(load, faults - struck)
            elif struck >= faults and begun >= transactions:
                break
            time.sleep(self._chance.choice(HOLDS) * self._chance.random())
            load.check()
            self.target.check()
        self.history = load.finish()
        verdict = judge(self.history)
        self._count(load, verdict.permitted_cycles)
        self._report(f"chapter {chapter}: faults {first + 1} to {self.target.faults.total()}, "
                     f"{len(self.history.transactions)} transactions, {time.monotonic() - began:.0f} s, "
                     f"{len(verdict.anomalies)} anomalies")
        if not verdict.anomalies:
            load.delete()
        return verdict.anomalies

    def _strike(self, load: Load, at_most: int) -> None:
        self._fault_began = time.monotonic()
        what = self.target.strike(at_most)
        self._report(f"  {self.target.faults.total()}: {what}")
        load.await_progress()
        self._faulty_seconds += time.monotonic() - self._fault_began
        self._fault_began = 0.0

    def _excused_seconds(self) -> float:
        """Seconds of all faults so far, each up to the time at which every writer made progress again."""
        began = self._fault_began
        return self._faulty_seconds + (time.monotonic() - began if began else 0.0)

    def _count(self, load: Load, permitted_cycles: int) -> None:
        history, counts = load.record.history, self.totals.counts
        self.totals.longest = max((each for each in (self.totals.longest, *history.open_spans) if each is not None),
                                  key=open_seconds, default=None)
        counts["transactions"] += len(history.transactions)
        for outcome in Outcome:
            counts[f"transactions {outcome.value}"] += sum(each.outcome is outcome for each in history.transactions)
        counts["records"] += sum(len(log.codes) for log in history.logs)
        counts["records consumed and processed"] += sum(len(each.inputs) for each in history.transactions)
        for writer in load.writers:
            if isinstance(writer, ForeignWriter):
                counts[f"transactions of {writer.name}"] += writer.transactions
                counts.update({f"    had to be aborted: {each}": count for each, count in writer.refusals.items()})
        counts["producers replaced"] += sum(each.lost for each in load.writers)
        counts["group offsets read"] += len(history.offset_reads)
        self.totals.permitted_cycles += permitted_cycles
