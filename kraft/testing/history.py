"""History of clients of a cluster, and the check whether it is allowed: for real clients (`tests.crash_cluster`) and
those of the simulator (`testing.brokers`). Pure.

The classes have the names of Jepsen's checker for Kafka, where it has the same:

    lost-write              acknowledged, and not in the log
    duplicate               in the log twice
    inconsistent-offsets    one offset, two records: as acknowledged, as read, or as in the log
    precommitted-read       read past the final end of the log: it was not committed
    G1a                     read, or in the log, though reported to its producer as failed
    phantom                 in the log, or read, and never sent
    nonmonotonic-send       records of one producer in another order than they were sent
    realtime-order          behind a record that was sent after this one was acknowledged
    int-poll-skip, poll-skip                    a reader skipped records, within one poll or from one to the next
    int-nonmonotonic-poll, nonmonotonic-poll    a reader went back
    offset-reset            the position of a reader was reported as not in the log
    unseen                  in the log, and read by none of the readers that should have read it
    nonmonotonic-commit     a group's offset went back: acknowledged below one that was acknowledged before it was sent
    lost-commit             a group's offset is not the last acknowledged one
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

NOT_ACKNOWLEDGED: Final = -1
SOMEWHERE: Final = -2
"""Acknowledged at an unknown offset: librdkafka reports a record so when a later one of its producer was
acknowledged."""
NO_RECORD: Final = -1
SEQUENCE_BITS: Final = 40
EXAMPLES: Final = 3


def code_of(producer: int, sequence: int) -> int:
    """Return a record as one number."""
    return producer << SEQUENCE_BITS | sequence


def text_of(code: int) -> str:
    """Return the record in readable form."""
    return f"{code >> SEQUENCE_BITS}:{code & (1 << SEQUENCE_BITS) - 1}" if code >= 0 else "no record of ours"


@dataclass(slots=True)
class Sends:
    """Records that one producer sent to one partition: 0, 1, 2, and so on. `offsets` has the acknowledged offset by
    sequence. `floors` has, by sequence, the highest offset of the partition that was acknowledged to any producer when
    the record was sent."""

    producer: int
    offsets: array[int] = field(default_factory=lambda: array("q"))
    floors: array[int] = field(default_factory=lambda: array("q"))
    failed: dict[int, str] = field(default_factory=dict)

    def send(self, floor: int) -> int:
        """Add a record and return its sequence."""
        self.offsets.append(NOT_ACKNOWLEDGED)
        self.floors.append(floor)
        return len(self.offsets) - 1


class Run(NamedTuple):
    """Records that a reader saw without a gap, from offset `start` on."""

    start: int
    codes: array[int]

    @property
    def end(self) -> int:
        return self.start + len(self.codes)


class Problem(NamedTuple):
    """One violation."""

    kind: str
    text: str


class Finding(Protocol):
    """A violation of any judge."""

    @property
    def kind(self) -> str: ...
    @property
    def text(self) -> str: ...


class Reads:
    """Records that one reader saw of one partition. `position`: the offset at which it has to continue, -1 when that is
    not known."""

    def __init__(self, reader: str, position: int = -1) -> None:
        self.reader = reader
        self.runs: list[Run] = []
        self.problems: list[Problem] = []
        self.position = position
        self._poll = -1

    def begin(self, position: int = -1) -> None:
        """Set the position at which the reader continues; a group's offset or a seek decided it."""
        self.position = position

    def see(self, offset: int, code: int, poll: int) -> None:
        """Add a record at `offset`; `poll` is the number of the reader's poll that returned it."""
        if self.position >= 0 and offset != self.position:
            kind = "poll-skip" if offset > self.position else "nonmonotonic-poll"
            kind = f"int-{kind}" if poll == self._poll else kind
            self.problems.append(Problem(kind, f"{self.reader}: {offset} where {self.position} comes next"))
        if not self.runs or offset != self.runs[-1].end:
            self.runs.append(Run(offset, array("q")))
        self.runs[-1].codes.append(code)
        self.position = offset + 1
        self._poll = poll


class Commit(NamedTuple):
    """A group's committed offset of a partition. `answered` is None when its outcome is unknown."""

    partition: int
    offset: int
    sent: float
    answered: float | None


def judge_log(name: str, sends: Mapping[int, Sends], log: Sequence[int],
              sent_again: Collection[int] = ()) -> list[Problem]:
    """Check a partition's log, a code for each offset from 0 on, against the records sent to it. A record that was
    `sent_again` under another producer epoch is new to every server: it may be in the log twice, and its last place
    counts."""
    problems = []
    places: dict[int, int] = {}
    last: dict[int, int] = {}
    for offset, code in enumerate(log):
        producer, sequence = code >> SEQUENCE_BITS, code & (1 << SEQUENCE_BITS) - 1
        sent = sends.get(producer)
        if code < 0 or sent is None or sequence >= len(sent.offsets):
            problems.append(Problem("phantom", f"{name}: {text_of(code)} at {offset}"))
            continue
        if code in places and code not in sent_again:
            problems.append(Problem("duplicate", f"{name}: {text_of(code)} at {places[code]} and at {offset}"))
            continue
        places[code] = offset
        if sequence in sent.failed:
            problems.append(Problem("G1a", f"{name}: {text_of(code)} at {offset}, failed: {sent.failed[sequence]}"))
        if sequence < last.get(producer, -1) and code not in sent_again:
            problems.append(Problem("nonmonotonic-send", f"{name}: {text_of(code)} at {offset}, "
                                                         f"behind {last[producer]}"))
        last[producer] = max(sequence, last.get(producer, -1))
        if offset <= sent.floors[sequence]:
            problems.append(Problem("realtime-order", f"{name}: {text_of(code)} at {offset} was sent when "
                                                      f"{sent.floors[sequence]} was acknowledged"))
    for producer, sent in sends.items():
        for sequence, offset in enumerate(sent.offsets):
            place = places.get(code_of(producer, sequence))
            if offset == NOT_ACKNOWLEDGED or place == offset or (offset == SOMEWHERE and place is not None):
                continue
            kind = "lost-write" if place is None else "inconsistent-offsets"
            problems.append(Problem(kind, f"{name}: {producer}:{sequence} was acknowledged at {offset} and is "
                                          f"{'missing' if place is None else f'at {place}'}"))
    return problems


def judge_reads(name: str, readers: Iterable[Reads], log: Sequence[int], start: int = 0) -> list[Problem]:
    """Check the records that readers saw against the final log. Together they should have seen all of it from `start`
    on."""
    problems = []
    spans = []
    for reader in readers:
        problems += reader.problems
        for run in reader.runs:
            spans.append((run.start, run.end))
            for offset, code in enumerate(run.codes, run.start):
                if offset >= len(log):
                    problems.append(Problem("precommitted-read", f"{name}: {reader.reader} read {text_of(code)} at "
                                                                 f"{offset}, the log ends at {len(log)}"))
                elif log[offset] != code:
                    problems.append(Problem("inconsistent-offsets", f"{name}: {reader.reader} read {text_of(code)} at "
                                                                    f"{offset}, the log has {text_of(log[offset])}"))
    seen = start
    for first, end in sorted(spans):
        if first > seen:
            break
        seen = max(seen, end)
    if seen < len(log):
        problems.append(Problem("unseen", f"{name}: {text_of(log[seen])} at {seen} of {len(log)}"))
    return problems


def judge_commits(name: str, commits: Iterable[Commit], found: Mapping[int, int]) -> list[Problem]:
    """Check that acknowledged commits of a group never go back, and that its final offset in each partition is the last
    of them."""
    problems = []
    highest: dict[int, int] = {}
    events = []
    for commit in commits:
        if commit.answered is not None:
            events += [(commit.sent, 1, commit), (commit.answered, 0, commit)]
    for _, is_question, commit in sorted(events):
        before = highest.get(commit.partition, -1)
        if is_question and commit.offset < before:
            problems.append(Problem("nonmonotonic-commit",
                                    f"{name}-{commit.partition}: {commit.offset} was taken after {before}"))
        elif not is_question:
            highest[commit.partition] = max(before, commit.offset)
    for partition, offset in highest.items():
        if found.get(partition) != offset:
            problems.append(Problem("lost-commit", f"{name}-{partition}: {found.get(partition)} where {offset} was "
                                                   f"acknowledged last"))
    return problems


def summary(problems: Sequence[Finding]) -> str:
    """Return the number of violations of each kind, and the first ones."""
    counts = Counter(each.kind for each in problems)
    lines = [f"{kind}: {count}" for kind, count in counts.items()]
    for kind in counts:
        lines += [f"    {kind}: {each.text}" for each in [each for each in problems if each.kind == kind][:EXAMPLES]]
    return "\n".join(lines)
