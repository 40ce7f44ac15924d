"""Percentiles of measured times, only those with enough samples.

The p-th percentile describes the slowest 1 - p of the samples. Fewer than 1 / (1 - p) samples contain none of those,
and a figure under that name would be the maximum.
"""

from collections.abc import Sequence
from typing import Any, Final

from hdrh.histogram import HdrHistogram

LATENCY_NS_MAX: Final = 3_600 * 10**9
SIGNIFICANT_DIGITS: Final = 3
PERCENTILES: Final = (50.0, 90.0, 99.0, 99.9, 99.99)
POINTS_PER_DECADE: Final = 20


def samples_needed(percentile: float) -> int:
    """Smallest number of samples that can show a percentile below 100."""
    return round(100 / (100 - percentile))


def histogram_of(pairs: Sequence[tuple[int, int]]) -> Any:
    """Histogram of pairs (nanoseconds, count)."""
    histogram = HdrHistogram(1, LATENCY_NS_MAX, SIGNIFICANT_DIGITS)
    for value, count in pairs:
        histogram.record_value(min(max(value, 1), LATENCY_NS_MAX), count)
    return histogram


def figures_of(histogram: Any) -> dict[str, float]:
    """Microseconds by percentile ("50", ...), with "max" and "mean"; empty without samples."""
    count = histogram.get_total_count()
    if not count:
        return {}
    found = {f"{percentile:g}": histogram.get_value_at_percentile(percentile) / 1e3 for percentile in PERCENTILES
             if count >= samples_needed(percentile)}
    return found | {"max": histogram.get_max_value() / 1e3, "mean": histogram.get_mean_value() / 1e3}


def curve_of(histogram: Any) -> list[tuple[float, float]]:
    """Points (percentile, microseconds) for a plot over 1 / (1 - percentile). They are evenly spaced there, up to the
    last that the samples can show, with the maximum at 100. Empty without samples."""
    count = histogram.get_total_count()
    points: list[tuple[float, float]] = []
    step = 0
    while count and (needed := 10 ** (step / POINTS_PER_DECADE)) <= count:
        percentile = 100 * (1 - 1 / needed)
        points.append((percentile, histogram.get_value_at_percentile(percentile) / 1e3))
        step += 1
    return [*points, (100.0, histogram.get_max_value() / 1e3)] if points else []
