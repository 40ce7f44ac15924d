"""All judges of a history."""

from __future__ import annotations

from typing import NamedTuple

from kraft.testing.transactions.anomaly import Anomaly
from kraft.testing.transactions.cycles import judge_cycles
from kraft.testing.transactions.held import judge_open_spans
from kraft.testing.transactions.history import History
from kraft.testing.transactions.index import Index
from kraft.testing.transactions.logs import judge_logs
from kraft.testing.transactions.offsets import judge_offsets
from kraft.testing.transactions.reads import judge_reads


class Verdict(NamedTuple):
    """Result of all judges. `permitted_cycles`: see `cycles`."""

    anomalies: list[Anomaly]
    permitted_cycles: int


def judge(history: History) -> Verdict:
    """Run all judges. Linear in the size of the history, apart from sorting by time."""
    index = Index(history)
    cycles = judge_cycles(index)
    return Verdict([*judge_logs(index), *judge_reads(index), *cycles.anomalies, *judge_offsets(index),
                    *judge_open_spans(history)], cycles.permitted)
