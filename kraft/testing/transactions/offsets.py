"""Judge of transactions that consume and produce: a group's offsets and the outputs move together, forwards only."""

from __future__ import annotations

from collections.abc import Iterator
from math import isinf
from typing import NamedTuple

from kraft.testing.transactions.anomaly import Anomaly
from kraft.testing.transactions.history import NO_OFFSET, History, OffsetRead, Outcome
from kraft.testing.transactions.index import Index

Place = tuple[str, int]
"""A group and a partition."""


class _Commit(NamedTuple):
    offset: int
    transaction: int


def judge_offsets(index: Index) -> Iterator[Anomaly]:
    """Find processed-twice, offset-without-output, output-without-offset, offset-back, and G1a and phantom of
    offsets. The last offset that was read of each group and partition counts as the final one."""
    history = index.history
    commits = _commits(history)
    reads: dict[Place, list[OffsetRead]] = {place: [] for place in commits}
    for read in history.offset_reads:
        reads.setdefault((read.group, read.partition), []).append(read)
    processed = _processed(index)
    for place, done in processed.items():
        yield from _judge_twice(history, place, done)
    for place, found in reads.items():
        ordered = sorted(found, key=lambda each: each.answered)
        known = commits.get(place, [])
        yield from _judge_origin(index, place, ordered, known)
        yield from _judge_order(index, place, ordered, known)
        if ordered:
            yield from _judge_final(index, place, ordered[-1].offset, processed.get(place, []))


def _commits(history: History) -> dict[Place, list[_Commit]]:
    found: dict[Place, list[_Commit]] = {}
    for number, transaction in enumerate(history.transactions):
        for group, partition, offset in transaction.commits:
            found.setdefault((group, partition), []).append(_Commit(offset, number))
    return found


def _processed(index: Index) -> dict[Place, list[_Commit]]:
    """Return the offsets of the records that committed transactions processed for a group."""
    found: dict[Place, list[_Commit]] = {}
    for number, transaction in enumerate(index.history.transactions):
        if index.committed[number]:
            groups = dict.fromkeys(each.group for each in transaction.commits)
            for partition, offset, _ in transaction.inputs:
                for group in groups:
                    found.setdefault((group, partition), []).append(_Commit(offset, number))
    return found


def _judge_twice(history: History, place: Place, found: list[_Commit]) -> Iterator[Anomaly]:
    by_offset: dict[int, int] = {}
    for offset, number in found:
        first = by_offset.setdefault(offset, number)
        if first != number:
            yield Anomaly("processed-twice", f"{_name(history, place, offset)}: by {history.name(first)} and by "
                                             f"{history.name(number)}", (first, number))


def _judge_origin(index: Index, place: Place, reads: list[OffsetRead], commits: list[_Commit]) -> Iterator[Anomaly]:
    """Check that each offset that was read is one of a transaction that is not known to be aborted."""
    history = index.history
    possible: dict[int, None] = {}
    aborted: dict[int, int] = {}
    for offset, number in commits:
        if history.transactions[number].outcome is Outcome.ABORTED:
            aborted[offset] = number
        else:
            possible[offset] = None
    for offset in dict.fromkeys(each.offset for each in reads):
        if offset in possible or offset == NO_OFFSET:
            continue
        if offset in aborted:
            yield Anomaly("G1a", f"{_name(history, place, offset)} was read as committed, of "
                                 f"{history.name(aborted[offset])}", (aborted[offset],))
        else:
            yield Anomaly("phantom", f"{_name(history, place, offset)} was read as committed, of no transaction")


def _judge_order(index: Index, place: Place, reads: list[OffsetRead], commits: list[_Commit]) -> Iterator[Anomaly]:
    """Check that no read returns less than what was committed, or read, before it was sent."""
    history = index.history
    events: list[tuple[float, int, int, int]] = [(each.answered, 0, each.offset, -1) for each in reads]
    events += [(each.sent, 1, each.offset, -1) for each in reads]
    for offset, number in commits:
        transaction = history.transactions[number]
        if transaction.outcome is Outcome.COMMITTED and not isinf(transaction.ended):
            events.append((transaction.ended, 0, offset, number))
    highest, origin = NO_OFFSET, -1
    for _, is_question, offset, number in sorted(events):
        if not is_question:
            if offset > highest:
                highest, origin = offset, number
        elif offset < highest:
            source = f"committed by {history.name(origin)}" if origin >= 0 else "read"
            yield Anomaly("offset-back", f"{_name(history, place, offset)} was read after {highest} was {source}",
                          (origin,) if origin >= 0 else ())


def _judge_final(index: Index, place: Place, final: int, processed: list[_Commit]) -> Iterator[Anomaly]:
    """Check that exactly the visible records below the final offset have been processed."""
    history = index.history
    done: dict[int, int] = {}
    for offset, number in processed:
        done[offset] = number
        if offset >= final:
            yield Anomaly("output-without-offset", f"{_name(history, place, offset)} was processed by "
                                                   f"{history.name(number)}, the final offset is {final}", (number,))
    partition = place[1]
    for offset, code in zip(*index.wanted(partition, history.logs[partition].start, final, committed=True),
                            strict=True):
        if offset not in done:
            yield Anomaly("offset-without-output", f"{place[0]}: {history.record(code, partition, offset)} was not "
                                                   f"processed, the final offset is {final}")


def _name(history: History, place: Place, offset: int) -> str:
    return f"{place[0]}: {history.place(place[1], offset)}"
