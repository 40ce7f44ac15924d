"""History of a run: transactions of appends, the records that readers saw, and the logs at the end.

Every append has a value of its own, so a record names its transaction and its place in it (`code_of`). The order of the
offsets of a partition is the order of its versions, as in a list-append history. All times are from one clock, in
seconds.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import Final, NamedTuple

INDEX_BITS: Final = 20
INDEX_MASK: Final = (1 << INDEX_BITS) - 1
NOT_OURS: Final = -1
"""Code of a record that no client of the run sent."""
UNACKNOWLEDGED: Final = -1
NO_OFFSET: Final = -1
"""Committed offset of a group that has none."""


def code_of(transaction: int, index: int) -> int:
    """Return an append as one number. A run writes it into the record."""
    return transaction << INDEX_BITS | index


def transaction_of(code: int) -> int:
    return code >> INDEX_BITS


def index_of(code: int) -> int:
    return code & INDEX_MASK


class Outcome(Enum):
    """Outcome of a transaction as its client knows it.

    - `ABORTED`: its abort was acknowledged, or its client never requested a commit.
    - `UNKNOWN`: a commit was requested, and its outcome was not reported.
    """

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Append(NamedTuple):
    """One record of a transaction. `offset` is the acknowledged one; `sent` is the time before the client sent it."""

    partition: int
    offset: int = UNACKNOWLEDGED
    sent: float = -inf


class Input(NamedTuple):
    """One record that a transaction has consumed and processed."""

    partition: int
    offset: int
    code: int


class OffsetCommit(NamedTuple):
    """An offset of a group that a transaction commits."""

    group: str
    partition: int
    offset: int


@dataclass(slots=True)
class Transaction:
    """One transaction. Those of one producer have ascending numbers.

    - `began`: before its first request. `ending`: before the request to commit; infinite without one.
    - `ended`: after its outcome was acknowledged; infinite when it was not.
    """

    producer: int
    began: float = 0.0
    ending: float = inf
    ended: float = inf
    outcome: Outcome = Outcome.UNKNOWN
    appends: list[Append] = field(default_factory=list)
    inputs: list[Input] = field(default_factory=list)
    commits: list[OffsetCommit] = field(default_factory=list)


@dataclass(slots=True)
class View:
    """Records that one reader saw of one partition, without a seek, from `start` on and up to its position `end`.

    - `committed`: whether the reader has the isolation level read_committed.
    - `times`: for each record, the time after it was received.
    - `stable_ends`: the positions at which the reader was notified that no more records are visible.
    """

    reader: str
    partition: int
    committed: bool = True
    start: int = 0
    end: int = 0
    offsets: array[int] = field(default_factory=lambda: array("q"))
    codes: array[int] = field(default_factory=lambda: array("q"))
    times: array[float] = field(default_factory=lambda: array("d"))
    stable_ends: list[int] = field(default_factory=list)

    def see(self, offset: int, code: int, time: float) -> None:
        """Add a record."""
        self.offsets.append(offset)
        self.codes.append(code)
        self.times.append(time)
        self.end = max(self.end, offset + 1)

    def reach(self, position: int) -> None:
        """Add the report that no record is visible from `position` on."""
        if not self.stable_ends or self.stable_ends[-1] != position:
            self.stable_ends.append(position)
        self.end = max(self.end, position)


@dataclass(slots=True)
class Log:
    """Final log of one partition, as a reader with read_uncommitted sees it after the end of all transactions.
    `stable_end` is the last stable offset then."""

    start: int = 0
    end: int = 0
    stable_end: int = 0
    offsets: array[int] = field(default_factory=lambda: array("q"))
    codes: array[int] = field(default_factory=lambda: array("q"))


class OffsetRead(NamedTuple):
    """A group's committed offset that was read as a stable one. `offset` may be `NO_OFFSET`."""

    group: str
    partition: int
    offset: int
    sent: float
    answered: float


class OpenSpan(NamedTuple):
    """Time during which the last stable offset of a partition remained at one open transaction. `timeout` is that of
    the transactions of the run; `excused` is the part of the time in which faults kept the cluster from ending it."""

    partition: int
    offset: int
    since: float
    until: float
    timeout: float
    excused: float = 0.0


@dataclass(slots=True)
class History:
    """All that happened in a run. `partitions` has the names; lists by partition have this order.

    `exclusive`: for each partition, whether the run lets no two transactions that write it overlap. Only there has the
    order of writes to be serial: brokers append records as they arrive, so the writes of overlapping transactions
    interleave by design.

    `producers`: names for reports, by number; may be shorter.
    """

    partitions: list[str]
    logs: list[Log]
    transactions: list[Transaction] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    offset_reads: list[OffsetRead] = field(default_factory=list)
    open_spans: list[OpenSpan] = field(default_factory=list)
    exclusive: list[bool] = field(default_factory=list)
    producers: list[str] = field(default_factory=list)

    def begin(self, producer: int, time: float) -> Transaction:
        """Add a transaction; its number is its place in the list."""
        self.transactions.append(Transaction(producer, began=time))
        return self.transactions[-1]

    def name(self, transaction: int) -> str:
        """Return a transaction in readable form."""
        found = self.transactions[transaction]
        producer = self.producers[found.producer] if found.producer < len(self.producers) else found.producer
        return f"T{transaction} (producer {producer}, {found.outcome.value})"

    def place(self, partition: int, offset: int) -> str:
        return f"{self.partitions[partition]}@{offset}"

    def record(self, code: int, partition: int, offset: int) -> str:
        """Return a record in readable form."""
        what = f"{self.name(transaction_of(code))}#{index_of(code)}" if self.knows(code) else "no record of ours"
        return f"{what} at {self.place(partition, offset)}"

    def knows(self, code: int) -> bool:
        """Return whether a client of the run sent this record."""
        number = transaction_of(code)
        return (0 <= number < len(self.transactions)
                and index_of(code) < len(self.transactions[number].appends))
