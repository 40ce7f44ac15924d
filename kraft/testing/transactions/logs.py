"""Judge of the final logs: everything that was acknowledged or committed is stored once, in order."""

from __future__ import annotations

from collections.abc import Iterator

from kraft.testing.transactions.anomaly import Anomaly
from kraft.testing.transactions.history import INDEX_BITS, UNACKNOWLEDGED, Outcome, transaction_of
from kraft.testing.transactions.index import MISSING, Index


def judge_logs(index: Index) -> Iterator[Anomaly]:
    """Find phantom, duplicate-write, lost-write, torn, inconsistent-offsets, producer-order and realtime-order."""
    history = index.history
    for partition, offset, code in index.unsent:
        yield Anomaly("phantom", history.record(code, partition, offset),
                      (transaction_of(code),) if history.knows(code) else ())
    for partition, offset, code in index.repeated:
        yield Anomaly("duplicate-write", f"{history.record(code, partition, offset)}, and at {index.place(code)} "
                                         "before", (transaction_of(code),))
    for number in range(len(history.transactions)):
        yield from _judge_appends(index, number)
    for partition in range(len(history.partitions)):
        yield from _judge_order(index, partition)


def _judge_appends(index: Index, number: int) -> Iterator[Anomaly]:
    """Compare the appends of a transaction with their places in the log."""
    history = index.history
    transaction = history.transactions[number]
    for at, (append, place) in enumerate(zip(transaction.appends, index.places[number], strict=True)):
        name = f"{history.name(number)}#{at}"
        if place == MISSING:
            where = history.partitions[append.partition]
            if append.offset != UNACKNOWLEDGED:
                place_text = history.place(append.partition, append.offset)
                yield Anomaly("lost-write", f"{name} was acknowledged at {place_text} and is not in the log", (number,))
            elif transaction.outcome is Outcome.COMMITTED:
                yield Anomaly("lost-write", f"{name} is not in the log of {where}", (number,))
            elif index.committed[number]:
                yield Anomaly("torn", f"{name} is not in the log of {where}; other records of it were read", (number,))
        elif append.offset not in (UNACKNOWLEDGED, place):
            yield Anomaly("inconsistent-offsets", f"{name} was acknowledged at {append.offset} and is at "
                                                  f"{history.place(append.partition, place)}", (number,))


def _judge_order(index: Index, partition: int) -> Iterator[Anomaly]:
    """Check that no record lies behind one of its own producer that was sent later, or of a transaction that began
    after its own had ended."""
    history = index.history
    transactions, log = history.transactions, history.logs[partition]
    last: dict[int, tuple[int, int]] = {}
    latest_began, latest_offset, latest_number = float("-inf"), -1, -1
    for offset, code in zip(log.offsets, log.codes, strict=True):
        if not history.knows(code):
            continue
        number = code >> INDEX_BITS
        transaction = transactions[number]
        before = last.get(transaction.producer)
        if before is None or code > before[0]:
            last[transaction.producer] = code, offset
        elif code != before[0]:
            yield Anomaly("producer-order", f"{history.record(code, partition, offset)} lies behind "
                                            f"{history.record(before[0], partition, before[1])}",
                          (transaction_of(before[0]), number))
        if transaction.ended < latest_began:
            yield Anomaly("realtime-order", f"{history.record(code, partition, offset)} had ended when "
                                            f"{history.name(latest_number)} at {latest_offset} began",
                          (latest_number, number))
        if transaction.began > latest_began:
            latest_began, latest_offset, latest_number = transaction.began, offset, number
