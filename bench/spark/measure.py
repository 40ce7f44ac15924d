"""Turns of one piece of work: rows per second, and processor time per row."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bench.spark.cost import WARM_SECONDS, cpu_seconds


class Result(NamedTuple):
    """Medians: rows per second, and processor time per row in microseconds."""

    name: str
    rows_per_second: float
    cpu_us: float


def measured(name: str, rows: int, turns: int, work: Callable[[], object], others: Sequence[int] = ()) -> Result:
    """After turns that do not count. `others`: children whose processor time is not the work's."""
    warmed = time.monotonic() + WARM_SECONDS
    while time.monotonic() < warmed:
        work()
    found = []
    for _ in range(turns):
        began, cpu = time.monotonic(), _cpu(others)
        work()
        found.append((time.monotonic() - began, _cpu(others) - cpu))
    return result(name, rows, found)


def result(name: str, rows: int, turns: list[tuple[float, float]]) -> Result:
    return Result(name, rows / statistics.median(seconds for seconds, _ in turns),
                  statistics.median(cpu for _, cpu in turns) / rows * 1e6)


def _cpu(others: Sequence[int]) -> float:
    return cpu_seconds(os.getpid()) - sum(map(cpu_seconds, others))
