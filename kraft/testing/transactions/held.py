"""Judge of open transactions: none holds the last stable offset longer than its time-out and a margin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kraft.testing.transactions.anomaly import Anomaly
from kraft.testing.transactions.history import History, OpenSpan, transaction_of

MARGIN_SECONDS: Final = 5.0


def open_seconds(span: OpenSpan) -> float:
    """Return how long a transaction held a last stable offset, apart from the time of faults."""
    return span.until - span.since - span.excused


def judge_open_spans(history: History) -> Iterator[Anomaly]:
    """Find open-too-long."""
    for span in history.open_spans:
        seconds = open_seconds(span)
        if seconds <= span.timeout + MARGIN_SECONDS:
            continue
        log = history.logs[span.partition]
        held = [code for offset, code in zip(log.offsets, log.codes, strict=True) if offset == span.offset]
        what = (history.record(held[0], span.partition, span.offset) if held
                else f"an unknown record at {history.place(span.partition, span.offset)}")
        yield Anomaly("open-too-long", f"{what} held the last stable offset for {seconds:.1f} s, the time-out is "
                                       f"{span.timeout:.1f} s",
                      tuple(transaction_of(code) for code in held if history.knows(code)))
    for partition, log in enumerate(history.logs):
        if log.stable_end < log.end:
            yield Anomaly("open-too-long", f"{history.partitions[partition]}: the last stable offset is "
                                           f"{log.stable_end} at the end, the log ends at {log.end}")
