"""Histories of transactions that a model of a broker makes: random ones without a fault, and small ones by hand."""

import random
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from kraft.testing.transactions.history import (
    NO_OFFSET,
    Append,
    History,
    Input,
    Log,
    OffsetCommit,
    OffsetRead,
    OpenSpan,
    Outcome,
    Transaction,
    View,
    code_of,
)

GROUP = "g"
INPUTS = 2
OUTPUTS = 2
TIMEOUT = 10.0


@dataclass
class Open:
    """A transaction that is open in the model."""

    number: int
    first: dict[int, int] = field(default_factory=dict)


@dataclass
class Model:
    """A broker that does everything right, with a clock that steps. The partitions are inputs of a group, its outputs,
    and one whose writers exclude each other."""

    chance: random.Random
    history: History = field(init=False)
    open: dict[int, Open] = field(default_factory=dict)
    now: float = 0.0

    def __post_init__(self) -> None:
        names = [*(f"in-{each}" for each in range(INPUTS)), *(f"out-{each}" for each in range(OUTPUTS)), "alone-0"]
        self.history = History(names, [Log() for _ in names], exclusive=[name == "alone-0" for name in names])
        self.watchers = [View("watcher", partition) for partition in range(len(names))]
        self.group = [0] * INPUTS
        self.decided: dict[int, bool] = {}
        self.holder = -1

    def tick(self) -> float:
        self.now += 1.0
        return self.now

    def begin(self, producer: int) -> Transaction:
        self.open[producer] = Open(len(self.history.transactions))
        return self.history.begin(producer, self.tick())

    def append(self, producer: int, partition: int, *, acknowledged: bool = True) -> None:
        found = self.open[producer]
        transaction, log = self.history.transactions[found.number], self.history.logs[partition]
        sent = self.tick()
        found.first.setdefault(partition, log.end)
        log.offsets.append(log.end)
        log.codes.append(code_of(found.number, len(transaction.appends)))
        transaction.appends.append(Append(partition, log.end if acknowledged else -1, sent))
        log.end += 1

    def end(self, producer: int, *, commit: bool, known: bool = True) -> None:
        found = self.open.pop(producer)
        transaction = self.history.transactions[found.number]
        if commit or not known:
            transaction.ending = self.tick()
        for partition in found.first:
            self.history.logs[partition].end += 1
        self.decided[found.number] = commit
        if commit:
            for _, partition, offset in transaction.commits:
                self.group[partition] = offset
        if known:
            transaction.ended = self.tick()
            transaction.outcome = Outcome.COMMITTED if commit else Outcome.ABORTED
        if self.holder == producer:
            self.holder = -1

    def stable_end(self, partition: int) -> int:
        log = self.history.logs[partition]
        return min((each.first[partition] for each in self.open.values() if partition in each.first), default=log.end)

    def visible(self, partition: int, start: int) -> list[tuple[int, int]]:
        end, log = self.stable_end(partition), self.history.logs[partition]
        places = range(bisect_left(log.offsets, start), bisect_left(log.offsets, end))
        return [(log.offsets[each], log.codes[each]) for each in places if self.decided.get(log.codes[each] >> 20)]

    def poll(self, partition: int) -> None:
        """Let the watcher read up to the last stable offset."""
        view, time = self.watchers[partition], self.tick()
        for offset, code in self.visible(partition, view.end):
            view.see(offset, code, time)
        view.reach(self.stable_end(partition))

    def transform(self, producer: int, partition: int, *, commit: bool, known: bool) -> None:
        """Process what is visible of an input partition in a transaction of its own, while nothing else happens."""
        records = self.visible(partition, self.group[partition])
        if not records:
            return
        transaction = self.begin(producer)
        transaction.inputs = [Input(partition, *each) for each in records]
        for _ in records:
            self.append(producer, INPUTS + self.chance.randrange(OUTPUTS))
        transaction.commits.append(OffsetCommit(GROUP, partition, records[-1][0] + 1))
        self.end(producer, commit=commit, known=known)

    def read_offset(self, partition: int) -> None:
        sent = self.tick()
        self.history.offset_reads.append(
            OffsetRead(GROUP, partition, self.group[partition] or NO_OFFSET, sent, self.tick()))

    def finish(self) -> History:
        """End all transactions, and read everything to the end."""
        for producer in list(self.open):
            self.end(producer, commit=False)
        for partition, log in enumerate(self.history.logs):
            log.stable_end = log.end
            self.poll(partition)
            everything = View("everything", partition, committed=False)
            for offset, code in zip(log.offsets, log.codes, strict=True):
                everything.see(offset, code, self.now)
            self.history.views += [self.watchers[partition], everything]
        for partition in range(INPUTS):
            self.read_offset(partition)
        self.history.open_spans.append(OpenSpan(0, 0, 0.0, TIMEOUT, TIMEOUT))
        return self.history


def random_history(seed: int, steps: int = 120, producers: int = 4) -> History:
    """Return a history without anomalies, of transactions that overlap."""
    model = Model(random.Random(seed))
    chance = model.chance
    alone = INPUTS + OUTPUTS
    for _ in range(steps):
        producer = chance.randrange(producers)
        what = chance.random()
        if producer not in model.open:
            if producer == 0:
                model.transform(0, chance.randrange(INPUTS), commit=chance.random() < 0.7,
                                known=chance.random() < 0.8)
            else:
                model.begin(producer)
        elif what < 0.65:
            partition = chance.choice([*range(INPUTS), alone])
            if partition == alone and model.holder not in (-1, producer):
                continue
            if partition == alone:
                # The lock covers whole transactions: only an empty one can take it.
                if model.holder != producer and model.open[producer].first:
                    continue
                model.holder = producer
            model.append(producer, partition, acknowledged=chance.random() < 0.8)
        else:
            model.end(producer, commit=chance.random() < 0.7, known=chance.random() < 0.85)
        if chance.random() < 0.3:
            model.poll(chance.randrange(len(model.watchers)))
        if chance.random() < 0.1:
            model.read_offset(chance.randrange(INPUTS))
    return model.finish()


def by_hand(logs: Sequence[Sequence[tuple[int, int] | None]], transactions: Sequence[Transaction], *,
            exclusive: bool = True) -> History:
    """Return a history of these logs, each a list of (transaction, index) by offset, None for a control record.

    A watcher has read what is committed."""
    history = History([f"p{number}" for number in range(len(logs))], [], list(transactions),
                      exclusive=[exclusive] * len(logs))
    for partition, records in enumerate(logs):
        log = Log(0, len(records), len(records))
        view = View("watcher", partition)
        for offset, record in enumerate(records):
            if record is None:
                continue
            log.offsets.append(offset)
            log.codes.append(code_of(*record))
            if transactions[record[0]].outcome is Outcome.COMMITTED:
                view.see(offset, code_of(*record), 1e6)
        view.reach(len(records))
        history.logs.append(log)
        history.views.append(view)
    return history


def transaction(*partitions: int, producer: int = 0, outcome: Outcome = Outcome.COMMITTED, began: float = 0.0,
                ending: float = 1.0, ended: float = 1e9) -> Transaction:
    """Return a transaction with an append without an acknowledged offset to each of the partitions."""
    return Transaction(producer, began, ending, ended, outcome, [Append(each, -1, began) for each in partitions])
