"""Judge of readers: each saw exactly the records that its isolation level makes visible, none of them too early."""

from __future__ import annotations

from collections.abc import Iterator

from kraft.testing.transactions.anomaly import Anomaly
from kraft.testing.transactions.history import History, Outcome, View, index_of, transaction_of
from kraft.testing.transactions.index import MISSING, Index


def judge_reads(index: Index) -> Iterator[Anomaly]:
    """Find G1a, G1b, open-read, torn, lost-write, skipped, internal, phantom and inconsistent-offsets."""
    history = index.history
    edges: dict[int, StableEdges] = {}
    for view in history.views:
        yield from _judge_contents(index, view)
        if view.committed:
            yield from _judge_times(history, view)
            if view.stable_ends:
                if view.partition not in edges:
                    edges[view.partition] = StableEdges(index, view.partition)
                yield from edges[view.partition].judge(view)
    yield from _judge_visibility(index)


def _judge_contents(index: Index, view: View) -> Iterator[Anomaly]:
    """Compare the records of a view with those of the log. One pass without differences is a comparison of arrays."""
    offsets, codes = index.wanted(view.partition, view.start, view.end, committed=view.committed)
    if offsets == view.offsets and codes == view.codes:
        return
    history = index.history
    yield from _judge_steps(history, view)
    wanted = dict(zip(offsets, codes, strict=True))
    log = history.logs[view.partition]
    stored = dict(zip(log.offsets, log.codes, strict=True))
    found = dict(zip(view.offsets, view.codes, strict=True))
    for offset, code in found.items():
        if wanted.get(offset) != code:
            yield _unexpected(history, view, offset, code, stored.get(offset))
    for offset, code in wanted.items():
        if offset not in found:
            yield _missing(index, view, offset, code)


def _judge_steps(history: History, view: View) -> Iterator[Anomaly]:
    position = view.start
    for offset, code in zip(view.offsets, view.codes, strict=True):
        if offset < position:
            yield Anomaly("internal", f"{view.reader} read {history.record(code, view.partition, offset)} where "
                                      f"{position} or a later offset comes next", _named(history, code))
        position = offset + 1


def _unexpected(history: History, view: View, offset: int, code: int, stored: int | None) -> Anomaly:
    text = f"{view.reader} read {history.record(code, view.partition, offset)}"
    if not history.knows(code):
        return Anomaly("phantom", text)
    if view.committed and history.transactions[transaction_of(code)].outcome is Outcome.ABORTED:
        return Anomaly("G1a", text, _named(history, code))
    if stored is None:
        return Anomaly("inconsistent-offsets", f"{text}; the log has no record there", _named(history, code))
    return Anomaly("inconsistent-offsets", f"{text}; the log has {history.record(stored, view.partition, offset)}",
                   _named(history, code))


def _missing(index: Index, view: View, offset: int, code: int) -> Anomaly:
    history = index.history
    number = transaction_of(code)
    text = f"{view.reader}, at {view.end}, did not receive {history.record(code, view.partition, offset)}"
    if not view.committed or index.seen[number] == 0:
        return Anomaly("lost-write" if view.committed else "skipped", text, _named(history, code))
    for other in history.views:
        if other.committed and other.reader == view.reader:
            for where, seen in zip(other.offsets, other.codes, strict=True):
                if transaction_of(seen) == number:
                    return Anomaly("torn", f"{text}; it received {history.record(seen, other.partition, where)}",
                                   (number,))
    return Anomaly("skipped", f"{text}; other readers did", (number,))


def _judge_times(history: History, view: View) -> Iterator[Anomaly]:
    """Find the records that were visible while their transaction was open."""
    transactions, count = history.transactions, len(history.transactions)
    for offset, code, time in zip(view.offsets, view.codes, view.times, strict=True):
        if not 0 <= (number := transaction_of(code)) < count:
            continue
        transaction = transactions[number]
        if time >= transaction.ending or transaction.outcome is Outcome.ABORTED:
            continue
        record = history.record(code, view.partition, offset)
        yield Anomaly("open-read", f"{view.reader} read {record} at {time:.3f} s; its commit was requested at "
                                   f"{transaction.ending:.3f} s", (number,))
        for at, later in enumerate(transaction.appends[index_of(code) + 1:], index_of(code) + 1):
            if later.partition == view.partition and later.sent > time:
                yield Anomaly("G1b", f"{view.reader} read {record} at {time:.3f} s; #{at} of the transaction was sent "
                                     f"to the same partition at {later.sent:.3f} s", (number,))
                break


class StableEdges:
    """Finds the ends of the visible part of a partition that separate the records of one transaction.

    The last stable offset is the first record of an open transaction, which may lie between the records of one that
    has ended. Such an end is no anomaly.
    """

    def __init__(self, index: Index, partition: int) -> None:
        self._history = index.history
        self._offsets, codes = index.visible(partition)
        last: dict[int, int] = {transaction_of(code): offset
                                for offset, code in zip(self._offsets, codes, strict=True)}
        self._reaches: dict[int, tuple[int, int]] = {}
        """Highest offset of the transactions up to a visible record, and its transaction, by the record's offset."""
        highest = (-1, -1)
        for offset, code in zip(self._offsets, codes, strict=True):
            highest = max(highest, (last[transaction_of(code)], transaction_of(code)))
            self._reaches[offset] = highest
        log = index.history.logs[partition]
        first: dict[int, int] = {}
        for offset, code in zip(log.offsets, log.codes, strict=True):
            first.setdefault(transaction_of(code), offset)
        self._first = dict.fromkeys(first.values())

    def judge(self, view: View) -> Iterator[Anomaly]:
        place = 0
        for end in sorted(dict.fromkeys(view.stable_ends)):
            while place < len(self._offsets) and self._offsets[place] < end:
                place += 1
            if place == 0 or end in self._first:
                continue
            last, number = self._reaches[self._offsets[place - 1]]
            if last >= end:
                yield Anomaly("G1b", f"{view.reader} had read all that was visible at "
                                     f"{self._history.place(view.partition, end)}, a part of "
                                     f"{self._history.name(number)}, which continues to {last}", (number,))


def _judge_visibility(index: Index) -> Iterator[Anomaly]:
    """Check that a committed transaction has no record in a part of a log that is never visible."""
    history = index.history
    stable = [each.stable_end for each in history.logs]
    for number, committed in enumerate(index.committed):
        if committed:
            for at, place in enumerate(index.places[number]):
                partition = history.transactions[number].appends[at].partition
                if place != MISSING and place >= stable[partition]:
                    kind = "torn" if index.seen[number] else "lost-write"
                    yield Anomaly(kind, f"{history.name(number)}#{at} at {history.place(partition, place)} lies behind "
                                        f"the last stable offset {stable[partition]} at the end", (number,))


def _named(history: History, code: int) -> tuple[int, ...]:
    return (transaction_of(code),) if history.knows(code) else ()
