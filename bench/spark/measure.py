"""Measurement of works that alternate turn by turn: rows per second, and processor time per row."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bench.spark.cost import WARM_SECONDS, cpu_seconds


class Turn(NamedTuple):
    """Cost of one turn."""

    seconds: float
    cpu_seconds: float


class Work(NamedTuple):
    """A work to measure; `take` executes it once."""

    name: str
    rows: int
    take: Callable[[], Turn]


class Result(NamedTuple):
    """Result of all turns of one work."""

    name: str
    rows: int
    turns: Sequence[Turn]

    @property
    def rows_per_second(self) -> float:
        return self.rows / statistics.median(turn.seconds for turn in self.turns)

    @property
    def cpu_us(self) -> float:
        """Return the processor time per row."""
        return statistics.median(turn.cpu_seconds for turn in self.turns) / self.rows * 1e6

    def beside(self, other: Result) -> tuple[float, float]:
        """Return rows per second and processor time per row as multiples of the other's: medians of the turns' ratios.
        """
        share = other.rows / self.rows
        pairs = list(zip(self.turns, other.turns, strict=True))
        return (statistics.median(theirs.seconds / ours.seconds for ours, theirs in pairs) / share,
                statistics.median(ours.cpu_seconds / theirs.cpu_seconds for ours, theirs in pairs) * share)


def timed(work: Callable[[], object], others: Sequence[int] = ()) -> Callable[[], Turn]:
    """Return a function that executes the work in this process and its children. `others` are children whose processor
    time does not belong to the work."""
    def take() -> Turn:
        began, cpu = time.monotonic(), _cpu(others)
        work()
        return Turn(time.monotonic() - began, _cpu(others) - cpu)

    return take


def measured(works: Sequence[Work], turns: int) -> list[Result]:
    """Measure the works, after uncounted turns."""
    for work in works:
        warmed = time.monotonic() + WARM_SECONDS
        while time.monotonic() < warmed:
            work.take()
    taken: list[list[Turn]] = [[] for _ in works]
    for _ in range(turns):
        for work, found in zip(works, taken, strict=True):
            found.append(work.take())
    return [Result(work.name, work.rows, found) for work, found in zip(works, taken, strict=True)]


def _cpu(others: Sequence[int]) -> float:
    return cpu_seconds(os.getpid()) - sum(map(cpu_seconds, others))
