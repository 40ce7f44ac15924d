"""Search for the highest rate at which a cluster still meets a limit. Decisions only: the caller measures."""

from dataclasses import dataclass, field
from typing import Final

from kraft.load.errors import InvalidWorkloadError
from kraft.load.measure import Measurement

GROWTH: Final = 2.0
"""Factor between rates until one fails."""
REACHED: Final = 0.98
"""Share of the due requests that a run must make, so that its latencies are those of the rate."""


@dataclass
class RateSearch:
    """Doubles the rate until one fails, then halves the interval between the highest good rate and the lowest bad one,
    until they differ by less than `precision`. The answer is the highest good rate below every bad one: a rate that
    fails when it is measured again ends all trust in those above it.

        while (rate := search.next_rate()) is not None:
            search.note(rate, is_good=...)
    """

    first: float
    precision: float = 0.05
    probes_max: int = 40
    good: list[float] = field(default_factory=list)
    bad: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.first < 1:
            raise InvalidWorkloadError(f"from: {self.first:g} is below 1 request per second")
        if not 0.001 <= self.precision <= 1:
            raise InvalidWorkloadError(f"precision: {self.precision:g} is not in 0.001 to 1")

    @property
    def best(self) -> float | None:
        """Return the highest good rate below every bad one; None when there is none."""
        limit = min(self.bad, default=float("inf"))
        return max((rate for rate in self.good if rate < limit), default=None)

    def next_rate(self) -> float | None:
        """Return the rate to measure next; None when the search is over."""
        if len(self.good) + len(self.bad) >= self.probes_max:
            return None
        best = self.best
        if not self.bad:
            return self.first if best is None else best * GROWTH
        limit = min(self.bad)
        if best is None:
            return limit / GROWTH if limit / GROWTH >= 1 else None
        return None if limit / best <= 1 + self.precision else (limit * best) ** 0.5

    def note(self, rate: float, *, is_good: bool) -> None:
        """Record whether a measurement of the rate met the limit."""
        (self.good if is_good else self.bad).append(rate)


@dataclass(frozen=True, slots=True)
class Limit:
    """Limit of a run: a percentile of the latency, from the time at which a request was due. A run that has too
    few samples for the percentile is judged by its maximum."""

    percentile: float
    milliseconds: float

    def value_ms(self, run: Measurement) -> float | None:
        """Return the run's latency at the percentile; None when it has no samples."""
        latency = run.end_to_end_us or run.latency_us
        found = latency.get(f"{self.percentile:g}", latency.get("max"))
        return None if found is None else found / 1000

    def is_met(self, run: Measurement) -> bool:
        """Return whether the run made its requests, none was refused, and the latency is within the limit."""
        value_ms = self.value_ms(run)
        due = float(run.workload["rate"]) * run.seconds
        return not run.errors and value_ms is not None and value_ms <= self.milliseconds and \
            run.requests >= REACHED * due - run.workload["connections"]
