"""Comparison of two clusters under one workload, in alternating runs: the differences, and their certainty.

A *ratio* is the median of the pairs' ratios, here and in every report. It need not be the ratio of the two medians
beside it: those carry the drift that the pairs cancel. Its interval comes from the pairs too, so one pair has none.

Machines drift: another tenant wakes up, caches warm, clocks change. Two runs in sequence measure the drift as well as
the clusters. So the runs alternate, each pair gives one ratio, and the interval comes from the ratios' spread.
"""

import random
import statistics
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from kraft.load.measure import Measurement

FIGURES: Final[dict[str, Callable[[Measurement], float | None]]] = {
    "requests/s": lambda each: each.requests_per_second,
    "MB/s": lambda each: each.megabytes_per_second,
    "p50 us": lambda each: each.latency_us.get("50"),
    "p99 us": lambda each: each.latency_us.get("99"),
    "p99.9 us": lambda each: each.latency_us.get("99.9"),
    "end-to-end p50 us": lambda each: (each.end_to_end_us or {}).get("50"),
    "end-to-end p99 us": lambda each: (each.end_to_end_us or {}).get("99"),
    "CPU us/request": lambda each: each.cpu_us_per_request,
    "CPU s/GB": lambda each: each.cpu_seconds_per_gigabyte,
    "memory MB": lambda each: each.resident_megabytes,
}
RESAMPLES: Final = 2_000
CONFIDENCE: Final = 0.95
INTERVAL_PAIRS_MIN: Final = 2
# Settings of a workload that are only names, and change nothing of what is measured.
NAMES_ONLY: Final = ("topic", "seed")
RATIO_NOTE: Final = "A / B is the median of the pairs' ratios, not the ratio of the medians beside it."


class Ratio(NamedTuple):
    """One figure: medians of both sides, and the median of A over B with its interval of 95 % confidence over the
    pairs. Fewer than two pairs have no interval."""

    figure: str
    a: float
    b: float
    ratio: float
    low: float | None
    high: float | None
    pairs: int

    @property
    def interval_text(self) -> str:
        if self.low is None or self.high is None:
            return "none: one pair"
        return f"{self.low:.3f} to {self.high:.3f}"


def compare(pairs: list[tuple[Measurement, Measurement]], seed: int = 1) -> list[Ratio]:
    """Ratios of every figure that both sides have, from alternating runs."""
    found = []
    for name, figure in FIGURES.items():
        values = [(figure(a), figure(b)) for a, b in pairs]
        both = [(a, b) for a, b in values if a and b]
        if len(both) == len(pairs) and both:
            ratios = [a / b for a, b in both]
            low, high = interval(ratios, seed) if len(ratios) >= INTERVAL_PAIRS_MIN else (None, None)
            found.append(Ratio(name, statistics.median(a for a, _ in both), statistics.median(b for _, b in both),
                               statistics.median(ratios), low, high, len(ratios)))
    return found


def interval(ratios: list[float], seed: int = 1) -> tuple[float, float]:
    """Bootstrap interval of the median: resampled with replacement, the outer 2.5 % cut off on each side."""
    chance = random.Random(seed)
    medians = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    cut = int(RESAMPLES * (1 - CONFIDENCE) / 2)
    return medians[cut], medians[-1 - cut]


def workload_differences(a: Mapping[str, object], b: Mapping[str, object]) -> list[tuple[str, object, object]]:
    """Settings that differ between two workloads, of those that change what is measured: (name, A's, B's)."""
    names = dict.fromkeys([*a, *b])
    return [(name, a.get(name), b.get(name)) for name in names
            if name not in NAMES_ONLY and a.get(name) != b.get(name)]
