"""What clients of a cluster did and saw, and whether that may be: of real ones (`tests.crash_cluster`) and of the
simulator's (`testing.brokers`). Pure.

The classes have the names of Jepsen's checker for Kafka, where it has the same:

    lost-write              acknowledged, and not in the log
    duplicate               in the log twice
    inconsistent-offsets    one offset, two records: as it was acknowledged, as somebody read it, as it is in the log
    precommitted-read       read past the end that the log has in the end: it was not committed
    G1a                     read, or in the log, though its producer was told that it failed
    phantom                 in the log, or read, and never sent
    nonmonotonic-send       of one producer, in another order than it was sent
    realtime-order          behind a record that was sent after this one was acknowledged
    int-poll-skip, poll-skip                    a reader left something out, within one poll or from one to the next
    int-nonmonotonic-poll, nonmonotonic-poll    a reader went back
    offset-reset            a reader was told that its position is not in the log
    unseen                  in the log, and no reader of those that should have has read it
    nonmonotonic-commit     a group's offset went back: acknowledged below one that was acknowledged before it was sent
    lost-commit             a group's offset is not what was acknowledged last
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

NOT_ACKNOWLEDGED: Final = -1
SOMEWHERE: Final = -2
"""Acknowledged, and nobody said where: so librdkafka tells of a record when a later one of its producer was."""
NO_RECORD: Final = -1
SEQUENCE_BITS: Final = 40
EXAMPLES: Final = 3


def code_of(producer: int, sequence: int) -> int:
    """A record as one number."""
    return producer << SEQUENCE_BITS | sequence


def told(code: int) -> str:
    """The record for people."""
    return f"{code >> SEQUENCE_BITS}:{code & (1 << SEQUENCE_BITS) - 1}" if code >= 0 else "no record of ours"


@dataclass(slots=True)
class Sends:
    """What one producer sent to one partition: 0, 1, 2, and so on. By sequence: the offset that was acknowledged, and
    the highest offset of the partition that any producer had an acknowledgment of when this was sent."""

    producer: int
    offsets: array[int] = field(default_factory=lambda: array("q"))
    floors: array[int] = field(default_factory=lambda: array("q"))
    failed: dict[int, str] = field(default_factory=dict)

    def send(self, floor: int) -> int:
        """One record more; gives its sequence."""
        self.offsets.append(NOT_ACKNOWLEDGED)
        self.floors.append(floor)
        return len(self.offsets) - 1


class Run(NamedTuple):
    """What a reader saw without a break, from offset `start` on."""

    start: int
    codes: array[int]

    @property
    def end(self) -> int:
        return self.start + len(self.codes)


class Problem(NamedTuple):
    """One thing that must not be."""

    kind: str
    text: str


class Reads:
    """What one reader saw of one partition. `position`: where it has to begin, -1 where that is not known."""

    def __init__(self, reader: str, position: int = -1) -> None:
        self.reader = reader
        self.runs: list[Run] = []
        self.problems: list[Problem] = []
        self.position = position
        self._poll = -1

    def begin(self, position: int = -1) -> None:
        """Where it reads next was decided anew: by a group's offset, or by a seek."""
        self.position = position

    def see(self, offset: int, code: int, poll: int) -> None:
        """`poll`: which of the reader's polls had it."""
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
    """A group's offset of a partition. `answered` is None for one of which nothing is known."""

    partition: int
    offset: int
    sent: float
    answered: float | None


def judge_log(name: str, sends: Mapping[int, Sends], log: Sequence[int],
              sent_again: Collection[int] = ()) -> list[Problem]:
    """What a partition's log has, a code for each offset from 0 on, beside what was sent to it. What was `sent_again`
    under another producer epoch is new to every server: it may stand twice, and its last place is the one that counts.
    """
    problems = []
    places: dict[int, int] = {}
    last: dict[int, int] = {}
    for offset, code in enumerate(log):
        producer, sequence = code >> SEQUENCE_BITS, code & (1 << SEQUENCE_BITS) - 1
        sent = sends.get(producer)
        if code < 0 or sent is None or sequence >= len(sent.offsets):
            problems.append(Problem("phantom", f"{name}: {told(code)} at {offset}"))
            continue
        if code in places and code not in sent_again:
            problems.append(Problem("duplicate", f"{name}: {told(code)} at {places[code]} and at {offset}"))
            continue
        places[code] = offset
        if sequence in sent.failed:
            problems.append(Problem("G1a", f"{name}: {told(code)} at {offset}, failed: {sent.failed[sequence]}"))
        if sequence < last.get(producer, -1) and code not in sent_again:
            problems.append(Problem("nonmonotonic-send", f"{name}: {told(code)} at {offset}, behind {last[producer]}"))
        last[producer] = max(sequence, last.get(producer, -1))
        if offset <= sent.floors[sequence]:
            problems.append(Problem("realtime-order", f"{name}: {told(code)} at {offset} was sent when "
                                                      f"{sent.floors[sequence]} was acknowledged"))
    for producer, sent in sends.items():
        for sequence, offset in enumerate(sent.offsets):
            place = places.get(code_of(producer, sequence))
            if offset == NOT_ACKNOWLEDGED or place == offset or (offset == SOMEWHERE and place is not None):
                continue
            kind = "lost-write" if place is None else "inconsistent-offsets"
            problems.append(Problem(kind, f"{name}: {producer}:{sequence} was acknowledged at {offset} and is "
                                          f"{'not there' if place is None else f'at {place}'}"))
    return problems


def judge_reads(name: str, readers: Iterable[Reads], log: Sequence[int], start: int = 0) -> list[Problem]:
    """What readers saw beside what the log has in the end. Together they should have seen all of it from `start` on."""
    problems = []
    spans = []
    for reader in readers:
        problems += reader.problems
        for run in reader.runs:
            spans.append((run.start, run.end))
            for offset, code in enumerate(run.codes, run.start):
                if offset >= len(log):
                    problems.append(Problem("precommitted-read", f"{name}: {reader.reader} read {told(code)} at "
                                                                 f"{offset}, the log ends at {len(log)}"))
                elif log[offset] != code:
                    problems.append(Problem("inconsistent-offsets", f"{name}: {reader.reader} read {told(code)} at "
                                                                    f"{offset}, the log has {told(log[offset])}"))
    seen = start
    for first, end in sorted(spans):
        if first > seen:
            break
        seen = max(seen, end)
    if seen < len(log):
        problems.append(Problem("unseen", f"{name}: {told(log[seen])} at {seen} of {len(log)}"))
    return problems


def judge_commits(name: str, commits: Iterable[Commit], found: Mapping[int, int]) -> list[Problem]:
    """Acknowledged commits of a group never go back, and what it has in the end, by partition, is the last of them."""
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


def summary(problems: Sequence[Problem]) -> str:
    """How many of each kind, and the first ones."""
    counts = Counter(each.kind for each in problems)
    lines = [f"{kind}: {count}" for kind, count in counts.items()]
    for kind in counts:
        lines += [f"    {kind}: {each.text}" for each in [each for each in problems if each.kind == kind][:EXAMPLES]]
    return "\n".join(lines)
